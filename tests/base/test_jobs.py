"""Jobs in processes of this machine: what they return, how they fail, and that no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.command_line import ROOT
from helpers.job_functions import job
from helpers.waiting import wait_until
from ncp_control.base import processes as jobs_module
from ncp_control.base.processes import Event, Job, JobPlace, LostError, Processes, Throttled, bring, compute

PARENT = """
import signal
import sys
from pathlib import Path
from helpers.job_functions import job
from ncp_control.base.processes import Processes

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        for event in Processes(2).run([job(name, "sleep") for name in "ab"], Path(sys.argv[1])):
            pass
    except KeyboardInterrupt:
        sys.exit(130)
"""


def ends(place: JobPlace, jobs: list[Job], root: Path) -> dict[str, Event]:
    """How every job ended."""
    return {event.job: event for event in place.run(jobs, root) if event.kind != "progress"}


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def sleepers(root: Path) -> list[int]:
    """The processes that sleep in a folder."""
    return [int(path.name.partition("-")[2]) for path in root.glob("process-*")]


def wait_for_sleepers(root: Path, count: int = 1) -> None:
    wait_until(lambda: len(sleepers(root)) == count, f"{count} jobs that sleep")


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs two jobs, which sleep already."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = os.pathsep.join(map(str, [ROOT, ROOT / "envs", ROOT / "tests"]))
    found = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for_sleepers(tmp_path, 2)
    yield found
    found.kill()
    found.wait()
    if found.stderr is not None:
        found.stderr.close()


@pytest.mark.system
def test_jobs_return_what_they_computed_and_the_errors_of_others_do_not_matter(tmp_path: Path) -> None:
    jobs = [job(f"{number} squared", "square", number=number) for number in range(5)]
    bad = [
        job("bad", "fail", text="this value is wrong"),
        job("strange", "fail_strangely"),
        job("unsent", "give_what_cannot_be_sent"),
        job("leaves", "leave"),
        job("unknown", "no_such_function"),
    ]
    found = ends(Processes(2), [*bad, *jobs], tmp_path)
    assert {name: event.value for name, event in found.items() if event.kind == "done"} == {
        f"{number} squared": number**2 for number in range(5)
    }
    failed = {name: event.value for name, event in found.items() if event.kind == "failed"}
    assert set(failed) == {one.name for one in bad}
    assert (type(failed["bad"]), str(failed["bad"])) == (ValueError, "this value is wrong")
    assert str(failed["strange"]) == "TwoWordsError: what ever"
    assert "generator" in str(failed["unsent"])
    assert str(failed["leaves"]) == "it ended with the exit code 3"
    assert "no_such_function" in str(failed["unknown"])


@pytest.mark.slow
def test_so_many_processes_compute_as_was_said(tmp_path: Path) -> None:
    jobs = [job(str(number), "where") for number in range(6)]
    found = [event.value for event in ends(Processes(2), jobs, tmp_path).values()]
    assert {folder for folder, _ in found} == {str(tmp_path)}
    assert 1 <= len({process for _, process in found}) <= 2
    assert os.getpid() not in {process for _, process in found}
    assert list(Processes(2).run([], tmp_path)) == []
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        Processes(0)


@pytest.mark.system
def test_a_process_computes_one_job_after_another_and_tells_of_them(tmp_path: Path) -> None:
    told: list[str] = []
    taken: list[list[str]] = []

    def jobs() -> Iterator[Job]:
        for one in (
            job("counts", "count_up", to=400),
            job("bad", "fail", text="wrong"),
            job("good", "square", number=3),
        ):
            taken.append(list(told))
            yield one

    events = []
    for event in Processes(1).run(jobs(), tmp_path):
        events.append(event)
        if event.kind != "progress":
            told.append(event.job)
    assert taken == [[], ["counts"], ["counts", "bad"]], "each is taken when there is room for it"
    *progress, counted, bad, good = events
    assert (counted, good) == (Event("counts", "done", 400), Event("good", "done", 9))
    assert (bad.job, bad.kind, type(bad.value), str(bad.value)) == ("bad", "failed", ValueError, "wrong")
    done = [event.progress[0] for event in progress]
    assert done == sorted(done)
    assert done[0] == 0
    assert {(event.job, event.kind, event.progress[1]) for event in progress} == {("counts", "progress", 400)}
    assert [event.note for event in progress if event.note] == ["half of it"]


def test_reports_are_throttled_but_notes_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(jobs_module, "time", SimpleNamespace(monotonic=lambda: now))
    sent: list[tuple[int, int, str]] = []
    report = Throttled(sent.append)
    for number in range(12):
        report(number, 12, "a note" if number == 6 else "")
        now += 0.125
    # one in half a second, and the note between two of them; the half second begins again with it
    assert sent == [(0, 12, ""), (4, 12, ""), (6, 12, "a note"), (10, 12, "")]


@pytest.mark.system
@pytest.mark.parametrize("leaves_a_child", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_job_that_is_killed_fails_alone(leaves_a_child: bool, tmp_path: Path) -> None:
    end = tmp_path / "end"
    dies = job("dies", "kill_itself_with_a_child", end=str(end)) if leaves_a_child else job("dies", "kill_itself")
    jobs = [dies, *(job(str(number), "square", number=number) for number in range(3))]
    found = ends(Processes(1), jobs, tmp_path)
    assert {name: event.value for name, event in found.items() if name != "dies"} == {"0": 0, "1": 1, "2": 4}
    assert found["dies"].kind == "failed"
    assert isinstance(found["dies"].value, LostError)
    assert str(found["dies"].value) == (
        "its process was ended by SIGKILL, perhaps because memory ran out: resume with fewer workers"
    )
    end.touch()


@pytest.mark.slow
def test_a_process_that_is_killed_between_two_jobs_is_replaced(tmp_path: Path) -> None:
    events = Processes(1).run([job("first", "where"), job("second", "where")], tmp_path)
    process = next(events).value[1]
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)  # until all of its threads have ended
    (second,) = events
    assert second.kind == "done"
    assert second.value[1] != process


@pytest.mark.system
def test_a_cancelled_job_ends_and_nothing_is_told_of_it(tmp_path: Path) -> None:
    place, told = Processes(2), []
    jobs = [job("long", "sleep"), job("short", "square", number=3), job("next", "square", number=4)]
    for event in place.run(jobs, tmp_path):
        told.append(event.job)
        if event.job == "next":
            wait_for_sleepers(tmp_path)
            place.cancel("long")
            place.cancel("nobody")
    assert told == ["short", "next"]
    assert not any(map(is_alive, sleepers(tmp_path)))


@pytest.mark.system
@pytest.mark.parametrize("function", [pytest.param("sleep", marks=pytest.mark.slow), "sleep_deeply"])
def test_closing_ends_every_process(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "SECONDS_TO_END", 0.5)  # after which a process is killed that does not end
    jobs = [job("a", function), job("b", "count_up", to=400), job("c", "square", number=1)]
    with closing(Processes(2).run(jobs, tmp_path)) as events:
        next(events)
        wait_for_sleepers(tmp_path)
    assert not any(map(is_alive, sleepers(tmp_path)))


@pytest.mark.system
def test_an_error_of_the_loop_ends_every_process(tmp_path: Path) -> None:
    def loop() -> None:
        jobs = [job("a", "sleep"), job("b", "square", number=1)]
        with closing(Processes(2).run(jobs, tmp_path)) as events:
            for _ in events:
                wait_for_sleepers(tmp_path)
                raise RuntimeError("an error of the loop")

    with pytest.raises(RuntimeError, match="of the loop"):
        loop()
    assert not any(map(is_alive, sleepers(tmp_path)))


@pytest.mark.system
def test_processes_end_when_their_parent_is_killed(parent: subprocess.Popen[bytes], tmp_path: Path) -> None:
    parent.kill()
    wait_until(lambda: not any(map(is_alive, sleepers(tmp_path))), "the end of the processes")


@pytest.mark.system
def test_ctrl_c_ends_parent_and_processes_without_a_traceback(parent: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    _, said = parent.communicate()
    assert (parent.returncode, said) == (130, b"")
    assert not any(map(is_alive, sleepers(tmp_path)))


@pytest.mark.system
def test_a_program_that_a_worker_imports_says_where_its_work_belongs(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "from pathlib import Path\n"
        "from helpers.job_functions import job\n"
        "from ncp_control.base.processes import Processes\n"
        f"print([event.kind for event in Processes(1).run([job('a', 'where')], Path({str(tmp_path)!r}))])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "envs", ROOT / "tests")))}
    ended = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=100)
    assert "['failed']" in ended.stdout
    assert 'put what the program does below the line  if __name__ == "__main__":' in ended.stderr


def test_computing_a_job_leaves_the_working_folder_as_it_was(tmp_path: Path) -> None:
    before = Path.cwd()
    assert compute(job("a", "where"), tmp_path, lambda *_: None) == (str(tmp_path), os.getpid())
    assert Path.cwd() == before
    for function, arguments in (("fail", {"text": "x"}), ("leave", {})):
        with pytest.raises((ValueError, RuntimeError)):
            compute(job("a", function, **arguments), tmp_path, lambda *_: None)
        assert Path.cwd() == before


def test_what_jobs_read_is_linked_into_their_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert bring("module:function", root) == "module:function"
    assert bring(str(tmp_path / "one" / "file"), root) == "inputs/file"
    assert bring(str(tmp_path / "one" / "file"), root) == "inputs/file"
    assert (root / "inputs" / "file").read_text() == "one"
    with pytest.raises(ValueError, match="is another file than"):
        bring(str(tmp_path / "other" / "file"), root)
    assert bring(str(tmp_path / "other"), root) == "inputs/other"
    assert (root / "inputs" / "other" / "file").read_text() == "other"
