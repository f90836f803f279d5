"""The folder of a run: its lock, its record, and what may be resumed."""

import json
import os
import sys
from pathlib import Path

import pytest

from ncp_control.base.run_folder import LOCK, RECORD, Hold, differences, prepare_run, read_record, seed_of

ABOUT = {"recipe": {"env": "x", "steps": 5}, "seed": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
def test_a_hold_ends_with_its_block_and_sweeps(tmp_path: Path) -> None:
    (tmp_path / f".{RECORD}.0af3.{2**22 + 1}.ncp.tmp").write_text("half")  # no process has such a number
    (tmp_path / ".hidden.tmp").write_text("mine")
    with Hold(tmp_path), pytest.raises(BlockingIOError, match=rf"is in use by another process \({os.getpid()}\)"):
        Hold(tmp_path)
    Hold(tmp_path).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden.tmp", LOCK]


def test_a_run_is_resumed_only_on_request_and_as_what_it_was(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "a"
    prepare_run(out, ABOUT, resume=False, command="first").release()
    with pytest.raises(FileExistsError, match="holds a run already: resume it, or choose another folder"):
        prepare_run(out, ABOUT, resume=False)
    before = (out / RECORD).read_bytes()
    with pytest.raises(ValueError, match=r"holds a run with another recipe: .*\(recipe.steps: 5 there, 6 here\)"):
        prepare_run(out, {**ABOUT, "recipe": {"env": "x", "steps": 6}}, resume=True)
    assert (out / RECORD).read_bytes() == before
    prepare_run(out, ABOUT, resume=True, command="first").release()
    assert (out / RECORD).read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
def test_a_refusal_lets_the_next_process_in(tmp_path: Path) -> None:
    prepare_run(tmp_path / "run", ABOUT, resume=False).release()
    with pytest.raises(ValueError, match="another seed"):
        prepare_run(tmp_path / "run", {**ABOUT, "seed": 2}, resume=True)
    prepare_run(tmp_path / "run", ABOUT, resume=True).release()


def test_a_record_keeps_every_way_in_which_a_run_went_on(tmp_path: Path) -> None:
    for command in ("one", "two", "two", "one", "three"):
        prepare_run(tmp_path, ABOUT, resume=True, command=command).release()
    record = read_record(tmp_path / RECORD)
    assert record == {**ABOUT, "command": "one", "resumed": [{"command": "two"}, {"command": "three"}]}


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty, and holds no run: choose another folder"):
        prepare_run(tmp_path, ABOUT, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


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
