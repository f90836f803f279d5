"""Killing a process, as kill -9 does, at a chosen moment of its work with files."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


class Moments:
    """Counts how often this process is about to open a file for writing, to rename, to make or to remove one, below a
    folder; at one of these moments it is killed. The moments of a deterministic program are the same each time.

    :param folder: files elsewhere do not count
    :param kill_at: the number of the moment, 1 the first; None never
    :param half: a file that is about to be renamed loses half of its bytes first, as if they had not been written yet
    """

    def __init__(self, folder: Path, kill_at: int | None = None, half: bool = False) -> None:
        self.folder, self.kill_at, self.half = str(folder), kill_at, half
        self.process = os.getpid()
        self.count = 0
        self.renamed: list[tuple[int, str]] = []  # the moments of renames, and the names that files got
        sys.addaudithook(self._hear)  # there is no way to take it away: for processes that end soon

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            counts = isinstance(flags, int) and flags & WRITING
        else:
            path, counts = arguments[0] if arguments else None, event in CHANGES
        if not counts or not isinstance(path, str | os.PathLike) or os.getpid() != self.process:
            return
        if not str(path).startswith(self.folder):
            return
        self.count += 1
        if self.count == self.kill_at:
            if self.half and event == "os.rename" and os.path.isfile(path):
                with open(os.open(path, os.O_RDWR), "r+b") as file:  # this is heard, too, and is a later moment
                    file.truncate(os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "os.rename":
            self.renamed.append((self.count, os.path.basename(str(arguments[1]))))
