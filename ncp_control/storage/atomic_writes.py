"""Writes files whole: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from ncp_control.storage.temporary import errors_name, lock, temporary_name


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
                    os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_room(folder: Path, size: int) -> None:
    """Raises OSError unless the disk can take `size` more bytes: for libraries that crash when they fill a disk."""
    with errors_name(folder), tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        elif shutil.disk_usage(folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
