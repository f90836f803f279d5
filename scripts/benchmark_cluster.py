"""Collects the same rollouts on real clusters of Ray with one, two and three nodes of one core, all on this machine.

For each it prints three times, and whether the datasets are equal byte by byte: that of the jobs, from the first
message to the last result; that of the collection, which also checks the nodes and reads the policy on each; and that
of the whole, which also writes the dataset and reads it again. As many nodes as there are cores can be faster; more
cannot.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import tyro
from needed import needed

from ncp_control.base.processes import Event, Job
from ncp_control.data.collect import collect_dataset
from ncp_control.rl import load_policy
from ncp_control.scale.cluster import Cluster
from ncp_control.scale.collecting import on_place

with needed():
    import ray
    from ray.cluster_utils import Cluster as Nodes

MAIN = Path("data") / "main_data.hdf5"


@dataclass
class Arguments:
    """Time a collection on one, two and three nodes.

    Example: python scripts/benchmark_cluster.py --rollouts 100
    """

    policy: str = "checkpoints/halfcheetah-teacher.safetensors"
    """The policy's file."""

    env: str = "HalfCheetah-v5"
    """The environment's id."""

    rollouts: int = 100
    """How many rollouts."""

    group: int = 10
    """Rollouts of a job."""

    most: int = 3
    """The largest number of nodes."""


class Watched(Cluster):
    """A cluster that notes when the first and the last event came."""

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        """Runs jobs; see `JobPlace`."""
        self.times = [time.perf_counter()]
        for event in super().run(jobs, root):
            self.times.append(time.perf_counter())
            yield event


def timed(arguments: Arguments, nodes: int, folder: Path) -> tuple[list[float], str]:
    """Collects on so many nodes; returns the three times and the hash of the dataset's file."""
    cluster = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        place = Watched(cluster.address, shared=False)
        settings = {"group": arguments.group, "progress": False, "elsewhere": on_place(place, arguments.policy)}
        policy = load_policy(arguments.policy)
        # The first collection lets the workers import what they need.
        collect_dataset(policy, arguments.env, str(folder / "warm"), rollouts=3 * nodes, **{**settings, "group": 1})
        began = time.perf_counter()
        collect_dataset(policy, arguments.env, str(folder / "timed"), rollouts=arguments.rollouts, **settings)
        whole, times = time.perf_counter() - began, place.times
        found = hashlib.sha256((folder / "timed" / MAIN).read_bytes()).hexdigest()
        return [times[-1] - times[1], times[-1] - times[0], whole], found
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    """Prints a line for each number of nodes."""
    arguments = tyro.cli(Arguments)
    first: tuple[list[float], str] | None = None
    for nodes in range(1, arguments.most + 1):
        with tempfile.TemporaryDirectory() as folder:
            seconds, found = timed(arguments, nodes, Path(folder))
        first = first or (seconds, found)
        same = "the same bytes" if found == first[1] else "OTHER BYTES"
        told = [
            f"{name} {own:.1f} s ({one / own:.2f} times as fast)"
            for name, own, one in zip(("jobs", "collection", "whole"), seconds, first[0], strict=True)
        ]
        print(f"{nodes} nodes: {', '.join(told)}, {same}", flush=True)


if __name__ == "__main__":
    main()
