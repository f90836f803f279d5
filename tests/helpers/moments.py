"""Kills a process with SIGKILL at a chosen moment of its work with files."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


def spread(moments: int, kills: int, random: Random) -> Iterator[int]:
    """Draws moments for some kills, spread over all, and other ones for another number of kills."""
    for kill in range(kills):
        yield 1 + (moments * kill + random.randrange(moments)) // kills


class Moments:
    """Counts the moments at which this process is about to change a file below a folder, and kills it at one of them.

    A change opens a file for writing, or renames, makes or removes a file or a folder. Those of the main thread count,
    because a deterministic program has the same ones each time; TensorBoard's thread writes when it gets to it.

    :param folder: the folder; changes elsewhere do not count
    :param kill_at: the number of the moment, from 1; None kills never
    :param half: a file that is about to be renamed first loses half of its bytes, as if they were not written yet
    """

    def __init__(self, folder: Path, kill_at: int | None = None, half: bool = False) -> None:
        self.folder, self.kill_at, self.half = str(folder), kill_at, half
        self.process = os.getpid()
        self.count = 0
        self.renamed: list[tuple[int, str]] = []  # the moments of renames, and the new names
        sys.addaudithook(self._hear)  # a hook cannot be removed, so the process should end soon

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            counts = isinstance(flags, int) and flags & WRITING
        else:
            path, counts = arguments[0] if arguments else None, event in CHANGES
        if not counts or not isinstance(path, str | os.PathLike) or os.getpid() != self.process:
            return
        if not str(path).startswith(self.folder) or threading.current_thread() is not threading.main_thread():
            return
        self.count += 1
        if self.count == self.kill_at:
            if self.half and event == "os.rename" and os.path.isfile(path):
                with open(os.open(path, os.O_RDWR), "r+b") as file:  # the hook hears this too, as a later moment
                    file.truncate(os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "os.rename":
            self.renamed.append((self.count, os.path.basename(str(arguments[1]))))
