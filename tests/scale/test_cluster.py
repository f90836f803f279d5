"""Jobs on a cluster of Ray that has three nodes of one core: the same results, whatever is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import ROOT
from helpers.gates import VARIABLE, Gate
from helpers.job_functions import job
from helpers.job_places import Here
from helpers.sweeping import contents, small_sweep
from helpers.waiting import wait_until
from ncp_control.base.processes import Event, Job, LostError
from ncp_control.scale import Sweep, Swept, sweep
from ncp_control.scale import cluster as cluster_module
from ncp_control.scale.cluster import ATTEMPTS, Cluster, left_as_found

ray = pytest.importorskip("ray", reason="needs ray: pip install 'ncp-control[scale]'")
pytest.importorskip("sb3_contrib")
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SEEDS = (0, 1, 2)  # times two settings
PATHS = os.pathsep.join(map(str, [ROOT, ROOT / "envs", ROOT / "tests"]))
DRIVER = f"""
import os, sys
from pathlib import Path
from helpers.gates import heed
from helpers.sweeping import small_sweep
from ncp_control.scale import cluster, sweep
from ncp_control.scale.cluster import Cluster

if {VARIABLE!r} in os.environ:
    heed(os.environ[{VARIABLE!r}])
cluster.SECONDS_TO_ANSWER = 300.0
folder, address, shared = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
sweep(small_sweep(folder, (0, 1, 2)), folder / "out", Cluster(address, 0, shared), resume=True, progress=False)
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """The nodes of a cluster; the first one is that of its address."""
    from ray.cluster_utils import Cluster as Nodes

    with left_as_found(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster_module, "SECONDS_TO_ANSWER", 300.0)  # where other work is done beside
        patched.setenv("PYTHONPATH", PATHS)
        patched.setenv("OMP_NUM_THREADS", "1")
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        local = {"num_cpus": 1, "object_store_memory": 2**27}
        found = Nodes(initialize_head=True, head_node_args={**local, "include_dashboard": False})
        for _ in range(2):
            found.add_node(**local)
        yield found
        ray.shutdown()
        found.shutdown()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sweep of these tests, computed in this process."""
    folder = tmp_path_factory.mktemp("local")
    assert sweep(small_sweep(folder, SEEDS), folder / "out", Here(), progress=False).failed == {}
    return folder / "out"


def swept(folder: Path, place: Any) -> Swept:
    return sweep(small_sweep(folder, SEEDS), folder / "out", place, resume=True, progress=False)


def ends(place: Any, jobs: list[Job], root: Path) -> dict[str, Event]:
    return {event.job: event for event in place.run(jobs, root) if event.kind != "progress"}


def two_more_cores(nodes: Any) -> Any:
    """Adds a node with two cores to a cluster."""
    with left_as_found():
        return nodes.add_node(num_cpus=2, object_store_memory=2**27)


class Watched(Cluster):
    """A cluster that does something at the first event of which a condition is true."""

    def when(self, condition: Any, act: Any) -> Watched:
        self.condition, self.act, self.done = condition, act, False
        return self

    def run(self, jobs: Any, root: Path) -> Generator[Event, None, None]:
        with closing(super().run(jobs, root)) as events:
            for event in events:
                if not self.done and self.condition(event):
                    self.done = True
                    self.act()
                yield event


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_cluster_finds_what_this_machine_finds(shared: bool, nodes: Any, local: Path, tmp_path: Path) -> None:
    assert swept(tmp_path, Cluster(nodes.address, 0, shared)).failed == {}
    assert contents(tmp_path / "out") == contents(local)


@pytest.mark.slow
def test_a_cluster_that_is_started_here_finds_the_same(local: Path, tmp_path: Path) -> None:
    """As `--on ray` does, in a process of its own."""
    code = DRIVER.replace("Cluster(address, 0, shared)", 'Cluster("ray", 2)')
    subprocess.run(driver_words(code, tmp_path, "", True), env=environment(), check=True)
    assert contents(tmp_path / "out") == contents(local)


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_node_that_is_lost_changes_nothing(shared: bool, nodes: Any, local: Path, tmp_path: Path) -> None:
    extra = two_more_cores(nodes)
    place = Watched(nodes.address, 0, shared).when(
        lambda event: event.kind == "done",
        lambda: nodes.remove_node(extra, allow_graceful=False),
    )
    assert swept(tmp_path, place).failed == {}
    assert place.done
    assert contents(tmp_path / "out") == contents(local)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_the_jobs_of_a_lost_node_are_sent_again(shared: bool, nodes: Any, tmp_path: Path) -> None:
    extra = two_more_cores(nodes)
    place, end = Cluster(nodes.address, 5, shared), tmp_path / "end"
    jobs = [job(str(number), "tell_and_wait", end=str(end)) for number in range(5)]
    began: set[str] = set()
    notes, values = [], {}
    for event in place.run(jobs, tmp_path):
        if event.note == "it begins":
            began.add(event.job)
            if len(began) == 5 and extra is not None:  # so two of them are there
                nodes.remove_node(extra, allow_graceful=False)
                extra = None
        elif event.note:
            notes.append(event.note)
            if len(notes) == 2:
                end.touch()
        if event.kind == "done":
            values[event.job] = event.value
    assert notes == ["its node or its worker was lost: it is sent again"] * 2
    assert values == dict.fromkeys("01234", "done")


def driver_words(code: str, folder: Path, address: str, shared: bool) -> list[str]:
    return [sys.executable, "-c", code, str(folder), address, str(shared)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_driver_that_is_killed_is_resumed(shared: bool, nodes: Any, local: Path, tmp_path: Path) -> None:
    gate, results = Gate(tmp_path / "gate", "small-*.json", passes=2), tmp_path / "out" / "results"
    words = driver_words(DRIVER, tmp_path, nodes.address, shared)
    driver = subprocess.Popen(words, env=environment() | {VARIABLE: str(gate.folder)})
    assert gate.wait_for() == [driver.pid]
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    assert len(list(results.glob("*.json"))) == 2
    assert swept(tmp_path, Cluster(nodes.address, 0, shared)).failed == {}
    assert contents(tmp_path / "out") == contents(local)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_worker_that_is_killed_is_sent_again_and_continues(shared: bool, nodes: Any, tmp_path: Path) -> None:
    """As when memory runs out; the second attempt counts on, from the files of the first."""
    arrived = tmp_path / "counted"
    jobs = [
        job("dies once", "continue_counting", ("counted",), folder="counted", arrived=str(arrived), to=6, dies_at=3)
    ]
    jobs += [job("dies always", "kill_itself"), job("good", "square", number=7)]
    events = list(Cluster(nodes.address, 0, shared, every=0.2).run(jobs, tmp_path))
    found = {event.job: event for event in events if event.kind != "progress"}
    assert (found["good"].kind, found["good"].value) == ("done", 49)
    assert found["dies once"].kind == "done"
    assert found["dies once"].value == [4, 5], "what was counted before is not counted again"
    assert sorted(path.name for path in arrived.iterdir()) == [f"{number}.txt" for number in range(6)]
    assert found["dies always"].kind == "failed"
    assert isinstance(found["dies always"].value, LostError)
    assert str(found["dies always"].value) == (
        f"its node or its worker was lost, {ATTEMPTS} times: give its nodes more memory, or run fewer jobs at once"
    )
    again = [event for event in events if event.job == "dies always" and "sent again" in event.note]
    assert len(again) == ATTEMPTS - 1


def test_errors_of_jobs_and_progress_arrive(nodes: Any, tmp_path: Path) -> None:
    jobs = [job("bad", "fail", text="this value is wrong"), job("strange", "fail_strangely")]
    jobs += [job("unsent", "give_what_cannot_be_sent"), job("leaves", "leave"), job("counts", "count_up", to=400)]
    events = list(Cluster(nodes.address).run(jobs, tmp_path))
    found = {event.job: event for event in events if event.kind != "progress"}
    assert {name for name, event in found.items() if event.kind == "failed"} == {"bad", "strange", "unsent", "leaves"}
    assert (type(found["bad"].value), str(found["bad"].value)) == (ValueError, "this value is wrong")
    assert str(found["strange"].value) == "TwoWordsError: what ever"
    assert "generator" in str(found["unsent"].value)
    assert str(found["leaves"].value) == "it ended with the exit code 3"
    assert [event.note for event in events if event.note] == ["half of it"], "no error is taken for a loss"


@pytest.mark.slow
def test_a_cancelled_job_ends_and_closing_ends_the_others(nodes: Any, tmp_path: Path) -> None:
    def asleep() -> list[int]:
        return [int(path.name.partition("-")[2]) for path in tmp_path.glob("process-*")]

    def gone(process: int) -> bool:
        path = Path(f"/proc/{process}/stat")
        try:
            return path.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    place = Cluster(nodes.address, 3, shared=True)
    jobs = [job("long", "sleep"), job("longer", "sleep"), job("short", "square", number=3)]
    told = []
    with closing(place.run([*jobs, job("next", "square", number=4)], tmp_path)) as events:
        for event in events:
            told.append(event.job)
            if event.job == "short":
                wait_until(lambda: len(asleep()) == 2, "two jobs that sleep")
                place.cancel("long")
            if event.job == "next":
                break
    assert told == ["short", "next"]
    wait_until(lambda: all(map(gone, asleep())), "the end of all jobs")


def test_nodes_with_other_versions_are_refused(nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cluster_module.versions(cluster_module.PACKAGES)
    monkeypatch.setattr(cluster_module, "versions", lambda packages: {**here, "torch": "1.0", "numpy": "9"})
    with pytest.raises(ValueError, match="has torch ") as refused:
        sweep(small_sweep(tmp_path), tmp_path / "out", Cluster(nodes.address, 0, True), progress=False)
    assert (
        f"has torch {here['torch']}, numpy {here['numpy']}, and this machine torch 1.0, numpy 9: install the same"
        in (str(refused.value))
    )
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_is_refused(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file by which nodes recognise the folder is gone before they look, as if they had another disk."""
    write = Path.write_text

    def forget(path: Path, *content: Any, **more: Any) -> int:
        return write(path, *content, **more) if "nodes" not in path.name else 0

    monkeypatch.setattr(Path, "write_text", forget)
    with pytest.raises(ValueError, match=r"does not see .*: mount it there, or leave out --shared"):
        ends(Cluster(nodes.address, 0, True), [job("a", "square", number=1)], tmp_path)
    assert ends(Cluster(nodes.address, 0, False), [job("a", "square", number=1)], tmp_path)["a"].value == 1


@pytest.mark.slow
def test_data_are_brought_to_the_nodes(nodes: Any, tmp_path: Path) -> None:
    from helpers.long_commands import fit_words

    data = fit_words(tmp_path)[1]
    what = Sweep([data], (0,), {"cell": ["gru"], "units": ["3"], "epochs": ["2"], "length": ["8"]}, "fit")
    found = sweep(what, tmp_path / "out", Cluster(nodes.address, 0, False), progress=False)
    assert found.failed == {}
    assert found.rows[0].results[0]["epochs"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_many_small_jobs_are_all_done(shared: bool, nodes: Any, tmp_path: Path) -> None:
    """scripts/benchmark_cluster.py says how long a job takes besides its work."""
    jobs = [job(str(number), "square", number=number) for number in range(60)]
    found = ends(Cluster(nodes.address, 1, shared), jobs, tmp_path)
    assert {name: event.value for name, event in found.items()} == {str(number): number**2 for number in range(60)}


@pytest.mark.slow
def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    code = "import sys; from ncp_control.cli import main; sys.exit(main(sys.argv[1:]))"
    small_sweep(tmp_path)
    words = ["sweep", str(tmp_path / "small.yml"), "--steps", "32", "--out", str(tmp_path / "out"), "--on"]
    for address in ("ray://127.0.0.1:9", "127.0.0.1:9"):
        done = subprocess.run(
            [sys.executable, "-c", code, *words, address],
            capture_output=True,
            text=True,
            env=environment(),
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"ncp-control: there is no cluster of Ray at {address}: ")
