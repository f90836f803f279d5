"""Reading mutated files, one after another, and collecting what went wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

SECONDS = 20  # of a processor's work for one file, which other programs do not change


class Hung(BaseException):
    """A reader did not come to an end; no `except` of a reader catches this."""


def ring(signum: int, frame: FrameType | None) -> None:
    """Ends a reader that hangs."""
    raise Hung


def examine(
    count: int,
    path: Path,
    mutate: Callable[[Random], bytes],
    read: Callable[[Path], Any],
    same: Callable[[Any], bool],
    name: str = "",
) -> dict[str, int]:
    """Reads mutated files, and counts those that were refused and those that were read.

    Fails with the seeds of files that crash or hang their reader, are read as something else, or are refused in a
    sentence that does not name them.

    :param count: how many files
    :param path: where each of them is written
    :param mutate: makes the content of a file
    :param read: the reader
    :param same: whether what was read is acceptable
    :param name: what the sentence has to name; by default the file's name
    """
    faults, refused = [], 0
    before = signal.signal(signal.SIGPROF, ring)
    try:
        for seed in range(count):
            path.write_bytes(mutate(Random(seed)))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                found = read(path)
                if not same(found):
                    faults.append(f"seed {seed}: read as something else")
            except (ValueError, OSError) as error:
                refused += 1
                if (name or path.name) not in str(error):
                    faults.append(f"seed {seed}: does not name the file: {str(error)[:200]!r}")
            except (Exception, Hung) as error:
                faults.append(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert not faults, f"{len(faults)} of {count} files, such as:\n" + "\n".join(faults[:12])
    return {"refused": refused, "read": count - refused}
