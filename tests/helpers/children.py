"""Runs work in a fork of this process, so that a crash, a kill or a limit affects only the fork."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Ended(NamedTuple):
    """How a process ended: its exit code (minus the number of a signal), its output, and what its work returned."""

    code: int
    output: str
    value: Any


class Child:
    """A fork of this process that does some work, in a process group of its own.

    :param work: the work, which must return something picklable
    :param scratch: a folder for its output
    """

    def __init__(self, work: Callable[[], Any], scratch: Path) -> None:
        if not hasattr(os, "fork"):
            pytest.skip("there is no fork on this system")
        number = time.monotonic_ns()
        self._output, self._result = scratch / f"output-{number}", scratch / f"result-{number}"
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            self._be(work)

    def _be(self, work: Callable[[], Any]) -> None:
        code = 99
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
            handle = os.open(self._output, os.O_WRONLY | os.O_CREAT)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            value = work()
            sys.stdout.flush()
            sys.stderr.flush()
            self._result.write_bytes(pickle.dumps(value))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def kill(self) -> None:
        """Kills this process with SIGKILL, but not the processes that it started."""
        os.kill(self.process, signal.SIGKILL)

    def wait(self, seconds: float = 300) -> Ended:
        """Waits until the process has ended; after `seconds` it is killed and the test fails."""
        until = time.monotonic() + seconds
        while True:
            ended, status = os.waitpid(self.process, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > until:
                os.killpg(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                pytest.fail(f"a process was not done after {seconds} seconds:\n{self._output.read_text()[-2000:]}")
            time.sleep(0.005)
        value = pickle.loads(self._result.read_bytes()) if self._result.exists() else None
        words = self._output.read_text(errors="replace") if self._output.exists() else ""
        for path in (self._output, self._result):
            path.unlink(missing_ok=True)
        return Ended(os.waitstatus_to_exitcode(status), words, value)

    def is_gone(self, seconds: float = 60) -> bool:
        """Whether its whole process group, with the processes that it started, ends within some seconds."""
        return wait_for(lambda: not group_exists(self.process), seconds)


def group_exists(process: int) -> bool:
    """Whether a process group has a process; zombies do not count."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == process and state != "Z":
            return True
    return False


def wait_for(true: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether a condition becomes true within some seconds."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def run_in_child(work: Callable[[], Any], scratch: Path, seconds: float = 300) -> Ended:
    """Runs work in a fork of this process and waits for its end."""
    return Child(work, scratch).wait(seconds)


def in_child(work: Callable[[], Any], scratch: Path, seconds: float = 300) -> Any:
    """Runs work that must not fail in a fork of this process, and returns its result."""
    ended = run_in_child(work, scratch, seconds)
    assert ended.code == 0, f"a process ended with {ended.code}:\n{ended.output[-4000:]}"
    return ended.value
