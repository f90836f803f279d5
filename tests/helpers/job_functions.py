"""Functions for jobs: each does one thing that a job may do, good or bad."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from helpers.gates import before_files
from helpers.waiting import wait_until
from ncp_control.base.processes import Job, Report, compute


class TwoWordsError(Exception):
    """It can be pickled, but not unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def job(name: str, function: str, writes: tuple[str, ...] = (), **arguments: Any) -> Job:
    """Returns a job that computes a function of this module."""
    return Job(name, f"{__name__}:{function}", arguments, writes=writes)


def square(number: int, report: Report) -> int:
    return number**2


def where(report: Report) -> tuple[str, int]:
    return str(Path.cwd()), os.getpid()


def fail(text: str, report: Report) -> None:
    raise ValueError(text)


def fail_strangely(report: Report) -> None:
    raise TwoWordsError("what", "ever")


def give_what_cannot_be_sent(report: Report) -> Any:
    return (number for number in range(3))


def leave(report: Report) -> None:
    sys.exit(3)


def count_up(to: int, report: Report) -> int:
    """Reports every number, the middle one with a note."""
    for number in range(to):
        report(number, to, "half of it" if number == to // 2 else "")
    return to


def kill_itself(report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_with_a_child(end: str, report: Report) -> None:
    """Dies, and leaves a process behind that has all of its pipes, until there is a file `end`."""
    if os.fork() == 0:
        wait_until(Path(end).exists, "the end of a test")
        os._exit(0)
    kill_itself(report)


def killed_before(file: str, passes: int, work: Job, report: Report) -> Any:
    """Computes another job in a process that dies before it finishes one file too many.

    :param file: a pattern of the names of files that count
    :param passes: how many of them are finished before
    """
    before_files(file, passes, lambda: kill_itself(report))
    return compute(work, Path.cwd(), report)


def sleep(report: Report) -> None:
    """Writes the number of its process into the name of a file, and never returns."""
    Path(f"process-{os.getpid()}").write_text("sleeping")
    threading.Event().wait()


def sleep_deeply(report: Report) -> None:
    """Never returns, and does not end when it is asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(report)


def continue_counting(folder: str, arrived: str, to: int, dies_at: int, report: Report) -> list[int]:
    """Counts, one file a number; dies the first time when it comes to `dies_at`, and later continues behind it.

    :param arrived: the folder of the driver in which the files arrive
    :return: the numbers that this process has counted
    """
    place, counted = Path(folder), []
    place.mkdir(exist_ok=True)
    for number in range(to):
        if (place / f"{number}.txt").exists():
            continue
        (place / f"{number}.txt").write_text(str(number))
        counted.append(number)
        if number == dies_at:
            wait_until((Path(arrived) / f"{number}.txt").exists, "the arrival of a file")
            kill_itself(report)
    return counted


def tell_and_wait(end: str, report: Report) -> str:
    """Says that it begins, and waits until there is a file `end`."""
    report(0, 1, "it begins")
    wait_until(Path(end).exists, "the word of the driver")
    return "done"
