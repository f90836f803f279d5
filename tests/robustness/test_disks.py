"""Disks that are full or cannot be written: an error in one line, and the work goes on later."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.children import run_in_child
from helpers.command_line import complaint
from helpers.command_line import refused_after_progress as refused
from helpers.long_commands import COMMANDS, SAME
from helpers.odd_recipes import trained
from helpers.recordings import WORM, make_recording, write_recording
from ncp_control.cli import main

pytest.importorskip("sb3_contrib")
pytestmark = pytest.mark.system


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


MORE = [pytest.param(share / 20, marks=pytest.mark.slow) for share in range(1, 41) if share not in (6, 16)]


@pytest.mark.parametrize("share", [0.3, 0.8, *MORE])
@pytest.mark.parametrize("command", SAME)
def test_a_full_disk_and_then_a_larger_one(
    command: str,
    share: float,
    tmp_path: Path,
    disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    words = COMMANDS[command](tmp_path)
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    place = disk(f"size={max(8192, int(share * size_of(tmp_path / 'whole')))}")
    ended = run_in_child(lambda: main([*words, "--out", str(place / "out")]), tmp_path)
    assert ended.code == 0, ended.output
    if share < 1 or ended.value != 0:  # temporary files need room too
        assert ended.value == 2
        assert "No space left on device" in complaint(ended.output)
    assert not [path for path in place.rglob("*.tmp")]
    disk("size=50m")
    assert main([*words, "--out", str(place / "out"), "--resume"]) == 0
    SAME[command](tmp_path / "whole", place / "out")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="files are limited in a process of its own")
@pytest.mark.parametrize("command", ["train", "fit"])
def test_files_that_must_not_grow_so_large(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as on a full disk, for users who may not mount one."""
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    words = COMMANDS[command](tmp_path)
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    limit = (tmp_path / "whole" / "state.safetensors").stat().st_size - 1

    def limited() -> int:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return main([*words, "--out", str(tmp_path / "out")])  # Python ignores the signal that would end it

    ended = run_in_child(limited, tmp_path)
    assert (ended.code, ended.value) == (0, 2), ended.output
    assert "state.safetensors: File too large" in complaint(ended.output)
    assert main([*words, "--out", str(tmp_path / "out"), "--resume"]) == 0
    SAME[command](tmp_path / "whole", tmp_path / "out")


def test_a_recording_on_a_full_disk(
    tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    policy = trained(tmp_path)
    capfd.readouterr()
    place = disk("size=16k")
    line = refused(capfd, "record", policy, "--steps", "500", "--out", place / "run.npz")
    assert f"{place / 'run.npz'}: No space left on device" in line
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("option", "name", "size"),
    [("--video", "a.mp4", "8k"), ("--video", "a.gif", "8k"), ("--video", "a.gif", "40k"), ("--html", "a.html", "40k")],
)
def test_a_picture_of_a_recording_on_a_full_disk(
    option: str, name: str, size: str, tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    episode = tmp_path / "run.npz"
    write_recording(make_recording(WORM, 6), episode)
    place = disk(f"size={size}")
    assert f"{place / name}: No space left on device" in refused(capfd, "view", episode, option, place / name)
    assert not list(place.iterdir())


def test_figures_on_a_full_disk(tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    write_recording(make_recording(WORM, 6), tmp_path / "run.npz")
    place = disk("size=60k")
    line = refused(capfd, "view", tmp_path / "run.npz", "--figures", place / "out", "--formats", "png", "svg", "pdf")
    assert ": No space left on device" in line
    assert not [path for path in place.rglob("*") if path.suffix not in ("", ".png", ".svg", ".pdf")]


@pytest.mark.parametrize("command", SAME)
def test_a_folder_that_cannot_be_written(
    command: str, tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    words = COMMANDS[command](tmp_path)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        line = refused(capfd, *words, "--out", out)
        assert "Not a directory" in line or "exists already" in line
    assert (tmp_path / "file").read_text() == "mine"
    place = disk("ro")
    assert "Read-only file system" in refused(capfd, *words, "--out", place / "out")
