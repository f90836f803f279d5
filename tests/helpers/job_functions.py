"""Functions for jobs: each does one thing that a job may do, good or bad."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ncp_control.support.jobs import Job, Report


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
    """Reports every number; the middle one with a note, and half a second after the first."""
    for number in range(to):
        if number == to // 2:
            time.sleep(0.6)
            report(number, to, "half of it")
        report(number, to, "")
    return to


def kill_itself(report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_after(seconds: float, report: Report) -> None:
    time.sleep(seconds)
    kill_itself(report)


def kill_itself_with_a_child(report: Report) -> None:
    """Dies, and leaves a process behind that has all of its pipes."""
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    kill_itself(report)


def sleep(seconds: float, report: Report) -> int:
    """Writes the number of its process into a file, and sleeps."""
    Path(f"process-{os.getpid()}").write_text("sleeping")
    time.sleep(seconds)
    return os.getpid()


def sleep_deeply(seconds: float, report: Report) -> None:
    """Sleeps, and does not end when it is asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(seconds, report)


def begin_and_sleep(seconds: float, report: Report) -> None:
    """Starts another process, and sleeps."""
    started = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    Path(f"process-{started.pid}").write_text("sleeping")
    time.sleep(seconds)


def continue_counting(folder: str, to: int, dies_at: int, report: Report) -> list[int]:
    """Counts, one file a number; dies the first time when it comes to `dies_at`, and later continues behind it.

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
            time.sleep(1.0)  # so that the file is sent
            kill_itself(report)
    return counted


def tell_and_sleep(seconds: float, report: Report) -> float:
    """Says that it begins, and sleeps."""
    report(0, 1, "it begins")
    time.sleep(seconds)
    return seconds
