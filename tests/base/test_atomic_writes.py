"""Files are written whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from ncp_control.base.files import check_room, write_atomically


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for content in (b"one", b"another, longer", b""):
        write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", ["open", "replace"])
def test_a_failure_leaves_the_old_file_alone_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, step, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist: create it first"):
        write_atomically(tmp_path / "none" / "file", b"")
    with pytest.raises(IsADirectoryError, match="is a folder: name a file"):
        write_atomically(tmp_path, b"")


def test_room_is_checked_and_not_taken(tmp_path: Path) -> None:
    check_room(tmp_path, 1000)
    with pytest.raises(OSError, match=r"No space left|File too large|Invalid argument") as caught:
        check_room(tmp_path, 2**62)
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_disk_has_the_content_before_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a file could be empty after a power cut, although its name is already there."""
    path, seen, synchronise = tmp_path / "file", [], os.fsync
    path.write_bytes(b"old")

    def fsync(handle: int) -> None:
        synchronise(handle)
        seen.append((os.fstat(handle).st_size, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"newer")
    assert seen == [(5, b"old")]
    write_atomically(path, b"newest", durable=False)
    assert len(seen) == 1
