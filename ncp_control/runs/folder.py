"""The folder of a run: its lock, which keeps a second process out, and its record, which says what makes the result."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ncp_control.base.files import is_temporary, lock, sweep
from ncp_control.base.kinds import RECORD

LOCK = ".lock"
LARGEST_RECORD = 2**24  # bytes; a record has thousands


class Hold:
    """Keeps other processes out of a folder until `release` or the end of a `with` block.

    The operating system locks a file in the folder for this process, and unlocks it when the process ends, even if it
    is killed. Systems and disks without such locks (Windows, some network disks) keep nobody out.
    """

    def __init__(self, folder: Path) -> None:
        # "a": a process that finds the folder in use must not empty the file.
        self._file = (folder / LOCK).open("a+b", buffering=0)
        try:
            lock(self._file.fileno())
        except BlockingIOError:
            self._file.seek(0)
            process = self._file.read(20).decode(errors="replace").strip()
            self._file.close()
            who = f"another process ({process})" if process.isdigit() else "another process"
            raise BlockingIOError(f"{folder} is in use by {who}: wait for it, or choose another folder") from None
        with suppress(OSError):  # on a full disk the next process is not told the number of this one
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n".encode())
        sweep(folder)

    def release(self) -> None:
        """Lets other processes in."""
        self._file.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def merge_entries(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries that a run began with, and under `resumed` those that differed when it went on."""
    first = {key: before.get(key, value) for key, value in more.items()}
    known = [first, *before.get("resumed", [])]
    resumed = known[1:] if json.loads(json.dumps(more)) in known else [*known[1:], more]
    return {**first, "resumed": resumed} if resumed else first


def refuse_foreign(out: Path) -> None:
    """Raises FileExistsError for a folder with files in it but no run."""
    if out.exists() and not (out / RECORD).exists():
        foreign = [path for path in out.iterdir() if path.name != LOCK and not is_temporary(path)]
        if foreign:
            raise FileExistsError(f"{out} is not empty, and holds no run: choose another folder (--out)")


def check_same(before: dict[str, Any], about: dict[str, Any], begun: str) -> None:
    """Raises ValueError if a record differs in what makes the result.

    :param before: what `read_record` has read
    :param about: what makes the result now
    :param begun: the beginning of the sentence, such as "runs/a holds a run with"
    """
    about = json.loads(json.dumps(about))  # tuples are lists in a record
    other = sorted(key for key, value in about.items() if before.get(key) != value)
    if other:
        told = differences({key: before.get(key) for key in other}, {key: about[key] for key in other})
        raise ValueError(f"{begun} another {' and '.join(other)}: use the same, or another folder ({'; '.join(told)})")


def differences(before: Any, after: Any, name: str = "") -> list[str]:
    """Says in words where two JSON values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                found += differences(before.get(key), after.get(key), f"{name}.{key}" if name else str(key))
        return found
    # A whole wiring would hide what differs.
    words = [text if len(text := str(value)) <= 40 else f"{text[:37]}..." for value in (before, after)]
    return [f"{name}: {words[0]} there, {words[1]} here"]


def read_record(path: Path) -> dict[str, Any]:
    """Reads the JSON object in a record."""
    size = path.stat().st_size
    if size > LARGEST_RECORD:
        raise ValueError(f"{path} has {size:,} bytes, and a record may have {LARGEST_RECORD:,}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a readable record, or was cut short ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a record: it should be a JSON object, and is {type(found).__name__}")
    return found


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Returns the versions of those of the packages that are installed."""
    installed = {}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
