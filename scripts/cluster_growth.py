"""How a sweep on a cluster grows: measures the parts on this machine, and simulates 1 to 1000 nodes from them.

Measured are what the driver spends on an empty job, what it spends on a megabyte of files that come home, how long a
job takes from its submission to its end, and, in a folder of a sweep, how long its runs took and how large they are.

The simulation assumes that nodes are as fast as this machine, that each core runs one job at a time, that a job sends
its changed files every ten seconds and at its end, and that one driver takes jobs and files one after another through
a network that is not narrower than what was measured here. It knows nothing of nodes that fail or are shared.
"""

from __future__ import annotations

import heapq
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from ncp_control.base.processes import Job
from ncp_control.runs.folder import read_record
from ncp_control.scale.cluster import SECONDS_BETWEEN_FILES, Cluster
from ncp_control.scale.couriers import files_in

FUNCTION = "ncp_control.scale.trial_jobs:write"
NODES = (1, 3, 10, 30, 100, 300, 1000)


@dataclass
class Arguments:
    """Measure the cost of a job on a cluster that is started here, and simulate larger ones.

    Example: python scripts/cluster_growth.py runs/sweep-pendulum-positions --runs 1000 --cores 16
    """

    sweep: Annotated[Path, tyro.conf.Positional]
    """The folder of a sweep, whose runs are taken as examples."""

    runs: int = 1000
    """Runs of the sweep that is simulated."""

    cores: int = 16
    """Cores of each node."""

    price: float = 0.04
    """What one core costs for an hour, in any currency."""

    jobs: int = 60
    """Empty jobs that are measured."""


@dataclass(frozen=True)
class Costs:
    """What was measured.

    :param start: seconds until an empty job has ended that is the only one: the nodes are checked, processes start
    :param job: seconds between the ends of two empty jobs of many, where two run at once; the driver needs no more
    :param megabyte: seconds of the driver for each megabyte of files
    :param delay: seconds from the submission of an empty job to its end, where one runs after another
    :param seconds: seconds that a run takes
    :param first: megabytes of files that a run has in the end
    :param changed: megabytes of files that it sends while it runs, each ten seconds
    """

    start: float
    job: float
    megabyte: float
    delay: float
    seconds: float
    first: float
    changed: float


@contextmanager
def cluster() -> Iterator[Any]:
    """Starts a cluster of two cores for the measurements."""
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             _node_ip_address="127.0.0.1")  # fmt: skip
    try:
        yield Cluster("ray", 2, shared=False)
    finally:
        ray.shutdown()


def timed(place: Cluster, count: int, megabytes: int = 0) -> float:
    """Returns the seconds for so many jobs, each of which writes a file."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{k}.bin" for k in range(count)]
        jobs = [Job(name, FUNCTION, {"name": name, "megabytes": megabytes}, writes=(name,)) for name in names]
        began = time.perf_counter()
        kinds = [event.kind for event in place.run(jobs, Path(folder))]
        if kinds.count("done") != count:
            raise SystemExit(f"only {kinds.count('done')} of {count} jobs were done")
        return time.perf_counter() - began


def measure(arguments: Arguments) -> Costs:
    """Measures the costs."""
    with cluster() as place:
        timed(place, 2)  # the workers import the package
        start = statistics.median(timed(place, 1) for _ in range(5))
        delay = (timed(replace(place, count=1), arguments.jobs) - start) / (arguments.jobs - 1)
        job = (timed(place, arguments.jobs) - start) / (arguments.jobs - 1)
        small, large = (timed(place, 4, megabytes) for megabytes in (0, 64))
    results = [read_record(path) for path in sorted((arguments.sweep / "results").glob("*.json"))]
    if not results:
        raise SystemExit(f"{arguments.sweep} has no finished run")
    runs = [path for path in (arguments.sweep / "runs").iterdir() if path.is_dir()]
    sizes = [sum(file.stat().st_size for file in files_in(run, (".",))) / 1e6 for run in runs]
    states = [path.stat().st_size / 1e6 for run in runs for path in run.glob("state.safetensors")]
    return Costs(
        start=start,
        job=job,
        megabyte=max(large - small, 0.0) / (4 * 64),
        delay=delay,
        seconds=float(np.mean([result["seconds"] for result in results])),
        first=float(np.mean(sizes)),
        changed=float(np.mean(states)) if states else 0.0,
    )


def simulate(costs: Costs, nodes: int, cores: int, runs: int) -> tuple[float, float, float]:
    """Simulates a sweep.

    :return: the hours that it takes, and the shares of the time in which the cores and the driver work
    """
    free = [0.0] * min(nodes * cores, runs)  # when each core has ended its job
    heapq.heapify(free)
    driver = costs.start
    busy = 0.0
    sent = costs.changed * costs.seconds / SECONDS_BETWEEN_FILES + costs.first
    for _ in range(runs):
        ready = heapq.heappop(free)
        # The driver sends one job after another. What it spends on files of running jobs delays it, too.
        spent = costs.job + sent * costs.megabyte
        driver = max(driver, ready) + spent
        busy += spent
        heapq.heappush(free, driver + costs.delay + costs.seconds)
    whole = max(free)
    return whole / 3600, runs * costs.seconds / (whole * nodes * cores), busy / whole


def main() -> None:
    """Measures, and prints the table."""
    arguments = tyro.cli(Arguments)
    costs = measure(arguments)
    sent = costs.changed * costs.seconds / SECONDS_BETWEEN_FILES + costs.first
    hours = arguments.runs * costs.seconds / 3600
    print(
        f"measured: {costs.start:.1f} s until the first job has ended; then {costs.delay:.2f} s for an empty job\n"
        f"the driver: at most {1000 * costs.job:.0f} ms a job, {1000 * costs.megabyte:.1f} ms a megabyte of files\n"
        f"a run: {costs.seconds:.0f} s, {costs.first:.2f} MB in the end, {sent:.2f} MB sent\n"
        f"{arguments.runs} runs: {hours:.1f} hours of one core, which cost {hours * arguments.price:.2f} at "
        f"{arguments.price} an hour; {arguments.runs * costs.first / 1000:.2f} GB on disk, "
        f"{arguments.runs * sent / 1000:.2f} GB through the network\n"
    )
    print(f"{'nodes':>6} {'cores':>7} {'minutes':>9} {'speed-up':>9} {'cores at work':>14} {'driver at work':>15}")
    for nodes in NODES:
        took, share, driver = simulate(costs, nodes, arguments.cores, arguments.runs)
        line = f"{nodes:>6} {nodes * arguments.cores:>7} {60 * took:>9.1f} {hours / took:>9.0f}"
        print(f"{line} {100 * share:>12.0f} % {100 * driver:>13.1f} %")


if __name__ == "__main__":
    main()
