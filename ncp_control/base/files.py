"""Writes files whole: a reader sees the old file or the new one, never half of one.

Every temporary name in this package is made here: `.NAME.TOKEN.PROCESS.ncp.tmp`. Its process locks it as long as it is
in use, and the system takes the lock away when the process ends, in whatever way.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def name_of(path: str | Path) -> str:
    """Returns how pages name what is in a file. A run calls its best `best`, and its folder says which run it was."""
    path = Path(path).resolve()
    name = path.name.removesuffix(".safetensors")
    return path.parent.name if name == "best" else name


def write_atomically(path: str | Path, content: bytes, durable: bool = True) -> None:
    """Writes a file under a temporary name beside `path`, then renames it; a failure leaves nothing behind.

    :param path: the file; replaced if it exists
    :param durable: wait until the disk has the content. Without it the file may be damaged if the machine itself stops
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    temporary = temporary_name(path)
    try:
        with errors_name(path):
            with temporary.open("wb") as file:
                lock(file.fileno())
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())  # a rename may reach the disk before the content does
            temporary.replace(path)  # on one disk this is a single step, which no reader sees half done
    finally:
        temporary.unlink(missing_ok=True)


def check_room(folder: Path, size: int) -> None:
    """Raises OSError unless the disk can take `size` more bytes: for libraries that crash when they fill a disk."""
    with errors_name(folder), tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        elif shutil.disk_usage(folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


OWN = re.compile(r"^\..+\.(\d+)\.ncp\.tmp$")
LONGEST = 50  # characters of NAME, so that the whole is never longer than a disk allows
YOUNG = 60.0  # seconds, in which every process has locked what it made

_swept: set[Path] = set()


def temporary_name(path: Path) -> Path:
    """Returns a new temporary name beside `path`.

    The first call for a folder in a process removes what killed processes left there.
    """
    folder = path.parent.absolute()
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder)
    return path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(4)}.{os.getpid()}.ncp.tmp")


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Gives an empty folder beside `path`, which is removed at the end of the block with everything in it."""
    sweep(path.parent)
    folder = temporary_name(path)
    with errors_name(path):
        folder.mkdir(mode=0o700)
    handle = None
    try:
        if sys.platform != "win32":
            handle = os.open(folder, os.O_RDONLY)
            lock(handle)
        yield folder
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Makes the errors of the system in the block name `path`.

    They would name a temporary file or, on a full disk, no file at all.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


def sweep(folder: Path) -> None:
    """Removes the temporary files and folders in a folder that no process works on any more.

    :param folder: the folder; its subfolders are left alone
    """
    with suppress(OSError), os.scandir(folder) as entries:
        left = [Path(entry.path) for entry in entries if OWN.match(entry.name)]
        for path in left:
            if is_abandoned(path):
                remove(path)


def remove(path: Path) -> None:
    """Removes a temporary file or folder, if this process may."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def is_abandoned(path: Path) -> bool:
    """Whether the process that made a temporary file or folder has ended.

    Its number alone does not tell, because another process may have the same number by now, or the process may run on
    another machine that shares the disk. Its lock alone does not tell either, because a file is made before it is
    locked, and because some disks have no locks.
    """
    match = OWN.match(path.name)
    if match is None or sys.platform == "win32":
        return False
    try:
        kind = path.lstat()
        if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)):
            return False
        runs = is_running(int(match[1]))
        if runs and time.time() - kind.st_mtime < YOUNG:
            return False
        # A link or a pipe that somebody put there is not opened.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return lock(handle) or not runs
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def is_running(process: int) -> bool:
    """Whether a process with this number runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def lock(handle: int) -> bool:
    """Locks an open file or folder for this process; raises BlockingIOError if another process has locked it.

    :return: whether it is locked now; False on systems and disks without locks
    """
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return False  # this disk has no locks
        return True
    return False


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a temporary file or folder of this package."""
    return OWN.match(path.name) is not None
