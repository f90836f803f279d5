"""A run: its lock, its record, what may be resumed, its seeds and its time, and what is said after Ctrl-C."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ncp_control.base.kinds import RECORD
from ncp_control.runs.folder import LOCK, Hold, differences, read_record
from ncp_control.runs.run import STATE, Run, seed_of

ABOUT = {"recipe": {"env": "x", "steps": 5}, "seed": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
def test_a_hold_ends_with_its_block_and_sweeps(tmp_path: Path) -> None:
    (tmp_path / f".{RECORD}.0af3.{2**22 + 1}.ncp.tmp").write_text("half")  # no process has such a number
    (tmp_path / ".hidden.tmp").write_text("mine")
    with Hold(tmp_path), pytest.raises(BlockingIOError, match=rf"is in use by another process \({os.getpid()}\)"):
        Hold(tmp_path)
    Hold(tmp_path).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden.tmp", LOCK]


def write(out: Path, about: dict[str, Any] = ABOUT, resume: bool = False, command: str = "first") -> None:
    """Opens a run and closes it again."""
    with Run(out, resume=resume, command=command).open(about, ()):
        pass


def test_a_run_is_resumed_only_on_request_and_as_what_it_was(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "a"
    write(out)
    with pytest.raises(FileExistsError, match=r"holds a run already: resume it \(--resume\), or choose another"):
        write(out)
    before = (out / RECORD).read_bytes()
    with pytest.raises(ValueError, match=r"holds a run with another recipe: .*\(recipe.steps: 5 there, 6 here\)"):
        write(out, {**ABOUT, "recipe": {"env": "x", "steps": 6}}, resume=True)
    assert (out / RECORD).read_bytes() == before
    write(out, resume=True)
    assert (out / RECORD).read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
def test_a_refusal_lets_the_next_process_in(tmp_path: Path) -> None:
    write(tmp_path / "run")
    with pytest.raises(ValueError, match="another seed"):
        write(tmp_path / "run", {**ABOUT, "seed": 2}, resume=True)
    write(tmp_path / "run", resume=True)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
def test_an_open_run_keeps_others_out(tmp_path: Path) -> None:
    with Run(tmp_path).open(ABOUT, ()), pytest.raises(BlockingIOError, match="is in use by another process"):
        write(tmp_path, resume=True)


def test_nothing_is_written_before_a_run_is_opened(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", resume=True)
    assert run.before == {}
    assert not run.has(STATE)
    assert not (tmp_path / "run").exists()


def test_the_record_of_a_run_is_known_only_to_one_that_goes_on(tmp_path: Path) -> None:
    write(tmp_path)
    assert Run(tmp_path).before == {}
    assert {key: Run(tmp_path, resume=True).before[key] for key in ABOUT} == ABOUT


def test_a_run_without_a_result_is_replaced(tmp_path: Path) -> None:
    for seed in (1, 2):
        with Run(tmp_path).open({"seed": seed}, (), results=(STATE, "curve.csv")):
            assert read_record(tmp_path / RECORD)["seed"] == seed
    (tmp_path / "curve.csv").touch()
    with pytest.raises(FileExistsError, match="holds a run already"), Run(tmp_path).open({}, (), (STATE, "curve.csv")):
        pass


def test_a_record_keeps_every_way_in_which_a_run_went_on(tmp_path: Path) -> None:
    for command in ("one", "two", "two", "one", "three"):
        write(tmp_path, resume=True, command=command)
    resumed = [{"command": command, "versions": {}} for command in ("two", "three")]
    assert read_record(tmp_path / RECORD) == {**ABOUT, "command": "one", "versions": {}, "resumed": resumed}


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty, and holds no run: choose another folder"):
        write(tmp_path, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_a_temporary_folder_is_there_while_the_run_is_open(tmp_path: Path) -> None:
    run = Run(None)
    with run.open(ABOUT, (), scratch=True):
        run.path(STATE).touch()
        assert run.has(STATE)
    assert not run.has(STATE)
    with (without := Run(None)).open(ABOUT, ()):
        assert without.out is None


@pytest.mark.parametrize(
    ("kept", "there", "words"),
    [
        (True, True, "--resume goes on from what is in {out}"),
        (True, False, "nothing is kept yet"),
        (False, True, "the model has its best weights"),
    ],
)
def test_after_ctrl_c_a_run_says_what_is_kept(
    kept: bool, there: bool, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path if kept else None)

    def work() -> None:
        with (
            run.open(ABOUT, (), results=(STATE, "curve.csv"), scratch=True),
            run.doing("fitting", 5, kept="the model has its best weights"),
        ):
            run.path(STATE if there else "curve.csv").touch()
            run.tracker.advance(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    said = capsys.readouterr().err.splitlines()
    assert said == ["fitting: 2 of 5", "", f"interrupted: {words.format(out=tmp_path)}"]


def test_a_run_without_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Run(None, progress=False).doing("fitting", 5):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""


def test_seconds_go_on_from_those_of_the_run_that_is_resumed() -> None:
    run = Run(None)
    run.earlier = 1000.0
    assert 1000 <= run.seconds() < 1000 + 500
    assert run.seconds() <= run.seconds()


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"a": ' + "[" * 100_000])
def test_a_record_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / RECORD
    path.write_text(content)
    with pytest.raises(ValueError, match=r"run\.json is not a"):
        read_record(path)


def test_differences_are_told_by_their_names() -> None:
    before = {"a": {"b": 1, "c": [1, 2]}, "d": "x" * 50}
    assert differences(before, json.loads(json.dumps(before))) == []
    assert differences(before, {"a": {"b": 2, "c": [1, 2]}, "d": None}) == [
        "a.b: 1 there, 2 here",
        f"d: {'x' * 37}... there, None here",
    ]


def test_seeds_of_different_steps_differ() -> None:
    seeds = {seed_of(seed, step) for seed in range(5) for step in range(20)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of(3, 7) == seed_of(3, 7)
    assert Run(None, seed=3).seed_of(7) == seed_of(3, 7)
    assert Run(None, seed=3).seed_of(7, 2) == seed_of(seed_of(3, 7), 2)
