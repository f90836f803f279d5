"""Files that travel between machines: what is packed, what is sent, and what is refused."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.waiting import wait_until
from ncp_control.base.files import temporary_name, write_atomically
from ncp_control.scale import couriers
from ncp_control.scale.couriers import (
    Content,
    Stamps,
    changed_files,
    changes,
    files_in,
    pack,
    scratch_folder,
    stamps_of,
    unpack,
)


def written(root: Path, **files: str) -> Path:
    """Writes files, with / for __ in their names."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def everything(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_what_is_packed_here_is_there_after_unpacking(tmp_path: Path) -> None:
    here = written(tmp_path / "here", run__a="1", run__deep__er__b="", other="3", log="x" * 2**22)
    content = pack(here, ("run", "log", "missing"))
    assert list(content) == ["run/a", "run/deep/er/b", "log"]
    there = tmp_path / "there"
    there.mkdir()
    unpack(content, there)
    assert everything(there) == {name: text for name, text in everything(here).items() if name != "other"}


def test_locks_and_temporary_files_stay_where_they_are(tmp_path: Path) -> None:
    written(tmp_path, **{"run__a": "1", "run__.lock": "12", "run__.hidden": "2"})
    temporary_name(tmp_path / "run" / "state.safetensors").write_text("half of it")
    folder = temporary_name(tmp_path / "run" / "data")
    folder.mkdir()
    (folder / "part").write_text("half of it")
    assert list(pack(tmp_path, ("run",))) == ["run/.hidden", "run/a"]


def test_what_jobs_read_is_packed_through_links(tmp_path: Path) -> None:
    written(tmp_path / "data", a="1", deep__b="2")
    inputs = tmp_path / "root" / "inputs"
    inputs.mkdir(parents=True)
    (inputs / "data").symlink_to(tmp_path / "data")
    (inputs / "one").symlink_to(tmp_path / "data" / "a")
    assert pack(tmp_path / "root", ("inputs/data", "inputs/one")) == {
        "inputs/data/a": b"1", "inputs/data/deep/b": b"2", "inputs/one": b"1",
    }  # fmt: skip


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    written(tmp_path, run__a="1")
    (tmp_path / "run" / "again").symlink_to(tmp_path / "run")
    assert [path.name for path in files_in(tmp_path, ("run",))] == ["a"]


@pytest.mark.parametrize("name", ["/etc/motd", "../out", "runs/../../out", "a/..", "", "."])
def test_a_path_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ValueError, match="a job sent a file that is not in its folder"):
        unpack({"good": b"1", name: b"2"}, root)
    assert everything(tmp_path) == {}, "nothing is written if anything is refused"


def test_changes_are_what_is_new_changed_or_gone(tmp_path: Path) -> None:
    written(tmp_path, run__same="1", run__changed="1", run__gone="1")
    known = stamps_of(tmp_path, ("run",))
    assert changes(tmp_path, ("run",), known) == ({}, known)
    written(tmp_path, run__changed="2", run__new="2", elsewhere="2")
    for number, name in enumerate(("new", "changed")):  # as a disk writes it whose clock has ticks of a second
        os.utime(tmp_path / "run" / name, (10**9 + number,) * 2)
    (tmp_path / "run" / "gone").unlink()
    content, stamps = changes(tmp_path, ("run",), known)
    assert content == {"run/new": b"2", "run/changed": b"2", "run/gone": None}
    assert list(content) == ["run/new", "run/changed", "run/gone"], "as they were written"
    there = written(tmp_path / "there", run__same="1", run__changed="1", run__gone="1")
    unpack(content, there)
    assert everything(there / "run") == everything(tmp_path / "run")
    assert changes(tmp_path, ("run",), stamps) == ({}, stamps)


def test_a_file_of_the_same_size_and_time_that_was_replaced_is_a_change(tmp_path: Path) -> None:
    written(tmp_path, a="1", b="2")
    known = stamps_of(tmp_path, ("a",))
    time_of = (tmp_path / "a").stat().st_mtime_ns
    (tmp_path / "b").replace(tmp_path / "a")
    os.utime(tmp_path / "a", ns=(time_of, time_of))
    assert changes(tmp_path, ("a",), known)[0] == {"a": b"2"}


PAIR = ("run/first", "run/second")


def writing(root: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[int], int]) -> None:
    """Lets a job write when a courier is about to read a file, as often as `before` says of the number of the reading.

    The job writes the same number into the second file of a pair and then into the first, again and again.
    """
    read, looks, writes = Path.read_bytes, itertools.count(), itertools.count()

    def read_meanwhile(path: Path) -> bytes:
        for _ in range(before(next(looks))):
            number, file = divmod(next(writes), 2)
            temporary = temporary_name(path)
            temporary.write_text(str(number + 1))
            temporary.replace(root / PAIR[1 - file])
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_meanwhile)


def test_files_that_belong_together_are_sent_together(tmp_path: Path) -> None:
    """Whatever is sent of a pair that a job writes meanwhile is a state that the job has had."""
    for moments in range(3**4):  # its ternary digits say how often the job writes before the first readings
        root, known, brought = written(tmp_path / str(moments), run__first="0", run__second="0"), Stamps(), {}
        with pytest.MonkeyPatch.context() as patched:
            writing(root, patched, lambda reading, moments=moments: moments // 3**reading % 3)  # type: ignore[misc]
            while True:
                content, known = changes(root, PAIR, known)
                if not content:
                    break
                brought |= {name: int(value or b"0") for name, value in content.items()}
                assert brought["run/second"] - brought["run/first"] in (0, 1), moments
        assert brought == {name: int((root / name).read_text()) for name in PAIR}


def test_nothing_is_sent_of_files_that_change_too_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "run", first="0", second="0")
    known = {name: (0, 0, 0) for name in PAIR}
    writing(tmp_path, monkeypatch, lambda reading: 1)
    assert changes(tmp_path, PAIR, known) == ({}, known)


def test_changed_files_are_sent_while_the_block_runs_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(*arguments: Any) -> Any:
        found = changes(*arguments)
        looks.append(found)
        return found

    monkeypatch.setattr(couriers, "changes", look)
    written(tmp_path, run__before="1")
    sent: list[Content] = []
    with changed_files(tmp_path, ("run", "log"), 0.01, sent.append):
        write_atomically(tmp_path / "log", b"a", durable=False)
        wait_until(lambda: sent, "a file that is sent while the block runs")
        looked = len(looks)
        wait_until(lambda: len(looks) > looked + 1, "two more looks")
        assert sent == [{"log": b"a"}], "what has not changed is not sent again"
        write_atomically(tmp_path / "log", b"ab", durable=False)
        write_atomically(tmp_path / "run" / "last", b"2", durable=False)
    assert {name: value for content in sent[1:] for name, value in content.items()} == {"log": b"ab", "run/last": b"2"}


def test_the_last_files_of_a_job_that_fails_are_sent_too(tmp_path: Path) -> None:
    sent: list[Content] = []

    def work() -> None:
        with changed_files(tmp_path, ("log",), 60, sent.append):
            written(tmp_path, log="why")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert sent == [{"log": b"why"}]


def test_a_scratch_folder_is_empty_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch_folder() as one, scratch_folder() as other:
        assert one != other
        assert list(one.iterdir()) == []
        written(one, deep__er="1")
    assert list(tmp_path.iterdir()) == []
