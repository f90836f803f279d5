"""Writes files whole: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from pathlib import Path

TEMPORARY = re.compile(r"^\..+\.\d+\.tmp$")


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a file under a temporary name beside `path`, then renames it; a failure leaves nothing behind.

    :param path: the file; replaced if it exists
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # the error names the temporary file, or, on a full disk, no file at all
        raise
    finally:
        temporary.unlink(missing_ok=True)


def check_room(folder: Path, size: int) -> None:
    """Raises OSError unless the disk can take `size` more bytes: for libraries that crash when they fill a disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            elif shutil.disk_usage(folder).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        error.filename = str(folder)
        raise


def is_temporary(path: Path) -> bool:
    """Whether a file is the temporary one of a `write_atomically` whose process was killed."""
    return TEMPORARY.match(path.name) is not None
