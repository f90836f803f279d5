"""Runs work in a fork of this process, so that a crash, a kill or a limit affects only the fork."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from helpers.waiting import wait_until

_numbers = itertools.count()


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
        number = f"{os.getpid()}-{next(_numbers)}"
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
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
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

    def wait(self) -> Ended:
        """Waits until the process has ended; if it never does, its group is killed and the test fails."""
        try:
            wait_until(self._has_ended, "the end of a process")
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            print(self._output.read_text(errors="replace")[-2000:])
            raise
        value = pickle.loads(self._result.read_bytes()) if self._result.exists() else None
        words = self._output.read_text(errors="replace") if self._output.exists() else ""
        for path in (self._output, self._result):
            path.unlink(missing_ok=True)
        return Ended(os.waitstatus_to_exitcode(self._status), words, value)

    def _has_ended(self) -> bool:
        ended, self._status = os.waitpid(self.process, os.WNOHANG)
        return ended != 0

    def wait_for_group(self) -> None:
        """Waits until the processes that it started have ended, too."""
        wait_for_group(self.process)


def group_exists(process: int) -> bool:
    """Whether a process group has a process; zombies do not count, unless a thread is left, which holds files open."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            threads = len(list((path.parent / "task").iterdir()))
        except OSError:
            continue
        if int(group) == process and (state != "Z" or threads > 1):
            return True
    return False


def wait_for_group(process: int) -> None:
    """Waits until all processes of a group have ended.

    :param process: the process that began the group
    """
    wait_until(lambda: not group_exists(process), "the end of all processes of a group")


def run_in_child(work: Callable[[], Any], scratch: Path) -> Ended:
    """Runs work in a fork of this process and waits for its end."""
    return Child(work, scratch).wait()


def in_child(work: Callable[[], Any], scratch: Path) -> Any:
    """Runs work that must not fail in a fork of this process, and returns its result."""
    ended = run_in_child(work, scratch)
    assert ended.code == 0, f"a process ended with {ended.code}:\n{ended.output[-4000:]}"
    return ended.value
