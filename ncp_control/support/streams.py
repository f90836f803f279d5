"""Standard output and standard error, which a process may lack: daemons, Windows programs without a console, `2>&-`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


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

    A missing or closed stdout or stderr is replaced by one that nothing reads. Characters that a stream's encoding
    lacks are written as escapes.
    """
    open_descriptors()
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as unread:
        sys.stdout, sys.stderr = (stream if is_usable(stream) else unread for stream in before)
        for stream in before:
            with suppress(OSError, ValueError, AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def open_descriptors() -> None:
    """Opens the numbers 0, 1 and 2 where they are closed. Otherwise the next file that is opened gets one of them, and
    a library that prints would write into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


def is_usable(stream: Any) -> bool:
    """Whether a stream is there and open."""
    if stream is None or getattr(stream, "closed", False):
        return False
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return True  # a stream in memory, or one of a program that shows the text itself
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
