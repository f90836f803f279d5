"""Temporary files: the names are this package's own, and those of killed processes are removed, no others."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from helpers.children import Child, run_in_child
from helpers.waiting import wait_until
from ncp_control.base import files
from ncp_control.base.files import is_temporary, sweep, temporary_folder, temporary_name, write_atomically

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of this kind: nothing is removed")
NOBODY = 2**22 + 1  # no process has this number


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def old(path: Path) -> Path:
    """Makes a file or a folder an hour old."""
    os.utime(path, (time.time() - 3600,) * 2)
    return path


@pytest.mark.parametrize(
    ("name", "known"),
    [(".run.json.123.tmp", False), (".run.json.0af3.123.ncp.tmp", True), (".hidden.tmp", False), ("a.123.tmp", False)],
)
def test_temporary_files_are_known_by_their_names(name: str, known: bool) -> None:
    assert is_temporary(Path("folder") / name) is known


@pytest.mark.system
def test_a_killed_process_leaves_nothing_that_the_next_one_does_not_remove(tmp_path: Path) -> None:
    def dies() -> None:
        with temporary_folder(tmp_path / "run.npz") as folder:
            (folder / "rows").write_bytes(b"half")
            temporary_name(tmp_path / "page.html").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert run_in_child(dies, tmp_path / "..").code == -signal.SIGKILL
    left = names(tmp_path)
    assert len(left) == 2
    assert all(is_temporary(Path(name)) for name in left)

    def writes() -> None:
        write_atomically(tmp_path / "other", b"whole")

    assert run_in_child(writes, tmp_path / "..").code == 0
    assert names(tmp_path) == ["other"]


@pytest.mark.system
def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()

    def works() -> None:
        with temporary_folder(place / "run.npz") as folder:
            (folder / "rows").write_bytes(b"half")
            old(folder)
            (tmp_path / "ready").touch()
            signal.pause()

    child = Child(works, tmp_path)
    wait_until((tmp_path / "ready").exists, "a process that writes")
    left = names(place)
    sweep(place)
    assert names(place) == left
    # The same number may be that of another process, on another machine or in another container.
    foreign = (place / left[0]).rename(place / f".run.npz.0.{NOBODY}.ncp.tmp")
    sweep(place)
    assert foreign.exists()
    child.kill()
    child.wait()
    sweep(place)
    assert names(place) == []


def test_a_process_that_got_the_number_of_a_killed_one_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container every command may have the same number."""
    monkeypatch.setattr(files, "YOUNG", 1800.0)  # this test itself may take a minute on a busy machine
    fresh, stale = (tmp_path / f".run.npz.{k}.{os.getpid()}.ncp.tmp" for k in range(2))
    fresh.write_bytes(b"just begun")
    stale.write_bytes(b"half")
    old(stale)
    sweep(tmp_path)
    assert names(tmp_path) == [fresh.name]


def test_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    mine = [f".notes.{NOBODY}.tmp", f"x.{NOBODY}.ncp.tmp", ".ncp.tmp", f".{NOBODY}.ncp", ".run.npz.ncp.tmp"]
    for name in mine:
        old_file = tmp_path / name
        old_file.write_text("mine")
        old(old_file)
    target = tmp_path / "target"
    target.mkdir()
    (target / "precious").write_text("mine")
    (tmp_path / f".link.{NOBODY}.ncp.tmp").symlink_to(target)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / f".pipe.{NOBODY}.ncp.tmp")
    before = names(tmp_path)
    sweep(tmp_path)
    assert names(tmp_path) == before
    assert (target / "precious").read_text() == "mine"


def test_a_name_as_long_as_a_disk_allows_can_be_written(tmp_path: Path) -> None:
    name = "é" * 127
    write_atomically(tmp_path / name, b"whole")
    assert names(tmp_path) == [name]


def test_a_folder_is_searched_once_by_a_process_that_writes_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(files, "sweep", lambda folder: seen.append(folder))
    for k in range(5):
        write_atomically(tmp_path / str(k), b"")
    assert seen == [tmp_path]
