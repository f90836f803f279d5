"""The files of jobs on machines that share no disk: they are packed here, unpacked there, and brought back."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ncp_control.base.files import is_temporary, temporary_folder, write_atomically
from ncp_control.runs.folder import LOCK

# Files by their paths, relative to the folder of the jobs, with / between the parts; None for one that was removed.
Content = dict[str, bytes | None]
Stamps = dict[str, tuple[int, int, int]]  # when each file was written, its size, and its number on the disk
LOOKS = 5  # how often changed files are read if one of them is written meanwhile


def files_in(root: Path, names: Sequence[str]) -> list[Path]:
    """Returns the files with these names, and those in folders with these names, without locks and temporary files.

    Links are followed, because what jobs read is only linked into their folder.
    """
    found: list[Path] = []
    for name in names:
        path = root / name
        inside = sorted(_inside(path)) if path.is_dir() else [path]
        found += [one for one in inside if one.is_file() and one.name != LOCK and not is_temporary(one)]
    return found


def _inside(folder: Path) -> Iterator[Path]:
    """Gives the files in a folder and in its folders, none of which is entered twice."""
    seen = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not is_temporary(Path(name)))
        yield from (Path(here, name) for name in files)


def pack(root: Path, names: Sequence[str]) -> Content:
    """Reads files and folders."""
    content: Content = {}
    for path in files_in(root, names):
        with contextlib.suppress(FileNotFoundError):
            content[path.relative_to(root).as_posix()] = path.read_bytes()
    return content


def unpack(content: Content, root: Path) -> None:
    """Writes files, each whole or not at all, and removes others. A path that leads out of the folder is refused."""
    for name in content:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts or not parts.parts:
            raise ValueError(f"a job sent a file that is not in its folder: {name}")
    for name, value in content.items():
        path = root / PurePosixPath(name)
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, value, durable=False)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Gives an empty folder on this machine's own disk, which is removed at the end of the block."""
    with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as folder:
        yield folder


@contextlib.contextmanager
def changed_files(root: Path, names: Sequence[str], seconds: float, send: Callable[[Content], None]) -> Iterator[None]:
    """Sends what has changed, every so many seconds while the block runs, and once at its end.

    :param names: files and folders
    """
    known = stamps_of(root, names)
    ended = threading.Event()

    def look() -> None:
        nonlocal known
        content, stamps = changes(root, names, known)
        if content:
            send(content)
        known = stamps

    def watch() -> None:
        while not ended.wait(seconds):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()


def changes(root: Path, names: Sequence[str], known: Stamps) -> tuple[Content, Stamps]:
    """Returns what has changed, and the present stamps.

    All files are as they were at one moment, from which a job can continue. From a new file and an old one it perhaps
    cannot. They are in the order in which they were written. Nothing is returned while files change too fast for this.

    :param names: files and folders
    :param known: the stamps of before
    """
    for _ in range(LOOKS):
        stamps = stamps_of(root, names)
        changed = sorted((stamp, name) for name, stamp in stamps.items() if known.get(name) != stamp)
        content: Content = {}
        for _, name in changed:
            with contextlib.suppress(FileNotFoundError):
                content[name] = (root / name).read_bytes()
        if stamps_of(root, names) == stamps:
            return {**content, **dict.fromkeys(sorted(known.keys() - stamps.keys()))}, stamps
    return {}, known


def stamps_of(root: Path, names: Sequence[str]) -> Stamps:
    """Returns the stamps of files, by their paths relative to `root`."""
    found: Stamps = {}
    for path in files_in(root, names):
        with contextlib.suppress(FileNotFoundError):
            at = path.stat()
            found[path.relative_to(root).as_posix()] = (at.st_mtime_ns, at.st_size, at.st_ino)
    return found
