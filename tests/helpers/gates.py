"""Gates: named points of their work with files at which processes stop, until a test kills them or opens the gate.

A process of ours keeps what it has done by writing a file under a temporary name and renaming it. The moment before
such a rename is one at which every kill must be harmless, and at which a test finds the process standing, however fast
the machine is and whatever else it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from helpers.waiting import wait_until

VARIABLE = "NCP_TEST_GATE"  # names the folder of the gate at which `helpers.gated_command` stops
RULE = "closed"  # the file that closes a gate: a pattern of names, and how many files with such names pass


class Gate:
    """A closed gate: each process that heeds it stops before it finishes one file too many with a name like this.

    :param folder: a new folder for the gate alone
    :param name: a pattern of names, such as `rollout_*.npz`
    :param passes: how many files with such names each process may finish before it stops
    """

    def __init__(self, folder: Path, name: str, passes: int = 1) -> None:
        self.folder, self.name = folder, name
        folder.mkdir(parents=True)
        (folder / RULE).write_text(f"{name}\n{passes}")

    def standing(self) -> list[int]:
        """Lists the processes that have come to the gate."""
        return sorted(int(path.name.partition("-")[2]) for path in self.folder.glob("process-*"))

    def wait_for(self, count: int = 1) -> list[int]:
        """Waits until so many processes stand at the gate, and returns their numbers."""
        wait_until(lambda: len(self.standing()) == count, f"{count} processes that are about to finish a {self.name}")
        return self.standing()

    def open(self) -> None:
        """Lets all processes go on."""
        (self.folder / RULE).unlink()

    def environment(self) -> dict[str, str]:
        """Returns the environment of a process that runs `helpers.gated_command` and shall stop at this gate."""
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        threads = {"OMP_NUM_THREADS": "1"}
        return {**os.environ, **threads, VARIABLE: str(self.folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        """Starts a real `ncp-control`, in a process group of its own, whose processes stop at this gate."""
        return subprocess.Popen(
            [sys.executable, "-m", "helpers.gated_command", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            start_new_session=True,
        )


def heed(folder: str | Path) -> None:
    """Stops this process, and the processes that it forks, at a gate; this cannot be taken back.

    :param folder: the folder of the gate
    """
    closed = Path(folder) / RULE
    if not closed.exists():
        return

    def stand() -> None:
        if closed.exists():
            (closed.parent / f"process-{os.getpid()}").touch()
            wait_until(lambda: not closed.exists(), "the opening of a gate")

    name, passes = closed.read_text().splitlines()
    before_files(name, int(passes), stand)


def before_files(name: str, passes: int, act: Callable[[], None]) -> None:
    """Does something in this process, and in those that it forks, before a file is finished; it cannot be taken back.

    :param name: a pattern of the names of files that count
    :param passes: how many of them each process finishes before
    :param act: what is done before every later one
    """
    finished: Counter[int] = Counter()  # by process, because a fork has the counts of its parent

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and fnmatch(os.path.basename(os.fspath(arguments[1])), name):
            process = os.getpid()
            finished[process] += 1
            if finished[process] > passes:
                act()

    sys.addaudithook(hear)
