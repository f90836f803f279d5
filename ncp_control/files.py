"""Writing files so that a reader sees the old one or the new one, never half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes `content` under a temporary name beside `path`, then renames it; leaves nothing behind on failure."""
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
    finally:
        temporary.unlink(missing_ok=True)
