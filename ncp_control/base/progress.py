"""The progress of long work, a bar in a terminal or lines in a log, and streams that a process may lack."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from ncp_control.base.text import shown

SECONDS_BETWEEN_LINES = 30.0
_listeners: list[Callable[[int, int, str], None]] = []


@contextmanager
def listening(listener: Callable[[int, int, str], None]) -> Iterator[None]:
    """Calls `listener` with what is done, of what total, and a note, whenever a tracker of this process advances."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class Tracker:
    """Counts what is done; its subclasses show it as a bar or as lines."""

    def __init__(self, description: str, total: int, done: int, unit: str) -> None:
        self.description, self.total, self.done, self.unit = description, total, done, unit
        self.work = 0
        self.note = ""
        self.start = self.shown = time.monotonic()

    def advance(self, done: int = 0, work: int = 0, note: str | None = None) -> None:
        """Counts more as done.

        :param done: how much more of the total is done
        :param work: how much more work was done, in the unit whose rate is shown
        :param note: a note to show from now on
        """
        self.done += done
        self.work += work
        self.note = self.note if note is None else shown(note)
        for listener in _listeners:
            listener(self.done, self.total, "")

    def rate(self) -> str:
        """Returns the work done in a second, in words."""
        seconds = time.monotonic() - self.start
        return f"{self.work / seconds:,.0f} {self.unit}/s" if self.work and seconds > 0 else ""

    def line(self) -> str:
        """Returns the progress as one line of text."""
        return "  ".join(
            part for part in (f"{self.description}: {self.done} of {self.total}", self.rate(), self.note) if part
        )


class _Log(Tracker):
    def advance(self, done: int = 0, work: int = 0, note: str | None = None) -> None:
        super().advance(done, work, note)
        if time.monotonic() - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = time.monotonic()
            say(self.line())


@contextmanager
def tracked(description: str, total: int, done: int = 0, unit: str = "steps", shown: bool = True) -> Iterator[Tracker]:
    """Shows progress on stderr while the block runs.

    :param description: what is being done
    :param total: how much there is to do
    :param done: how much of the total is done already
    :param unit: the unit of the work whose rate is shown
    :param shown: whether to show the progress, or only to count
    """
    if not shown:
        yield Tracker(description, total, done, unit)
    elif not Lenient(sys.stderr).isatty():
        log = _Log(description, total, done, unit)
        try:
            yield log
        finally:  # also how far the work came before an error or Ctrl-C
            say(log.line())
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"),
            TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=Console(file=cast("IO[str]", Lenient(sys.stderr)))) as progress:
            task = progress.add_task(description, total=total, completed=done, rate="", note="")

            class Bar(Tracker):
                def advance(self, done: int = 0, work: int = 0, note: str | None = None) -> None:
                    super().advance(done, work, note)
                    progress.update(task, completed=self.done, total=self.total, rate=self.rate(), note=self.note)

            yield Bar(description, total, done, unit)


class Lenient:
    """A text stream that forgets what cannot be written, because news of the work must not end the work.

    :param stream: the stream; None, as Python has it for a process without one, is a stream that nothing reads
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    @property
    def encoding(self) -> str:
        """The encoding of the text."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Writes a text if that is possible."""
        with suppress(OSError, ValueError, AttributeError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hands over what is written so far if that is possible."""
        with suppress(OSError, ValueError, AttributeError):
            self.stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        try:
            return bool(self.stream.isatty())
        except (OSError, ValueError, AttributeError):
            return False

    def fileno(self) -> int:
        """Returns the number of the open file; raises OSError for a stream without one."""
        try:
            return int(self.stream.fileno())
        except (ValueError, AttributeError) as error:
            raise OSError("this stream is no open file") from error


def say(text: str) -> None:
    """Writes a line to stderr, or nowhere if there is no stderr."""
    print(text, file=Lenient(sys.stderr), flush=True)


@contextmanager
def usable_streams() -> Iterator[None]:
    """Makes `print` work while the block runs.

    A missing stdout or stderr is replaced by one that nothing reads. Characters that a stream's encoding lacks are
    written as escapes.
    """
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as unread:
        sys.stdout, sys.stderr = (stream or unread for stream in before)
        for stream in before:
            with suppress(OSError, ValueError, AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
