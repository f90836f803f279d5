"""The folder of one long piece of work: its record, so that it is resumed as what it was and repeated by anybody, and
its lock, so that no two processes work in it at once.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.storage.atomic_writes import is_temporary, write_atomically

RECORD, LOCK = "run.json", ".lock"


class Hold:
    """A folder that is this process's alone until `release`, or the end of a `with` block.

    The lock is the system's, on a file in the folder: it ends with the process, however that ends, so that nothing is
    ever left locked. On systems and disks without such locks (Windows, some network disks) nothing is held.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK).open("a+b", buffering=0)
        try:
            lock(self._file.fileno())
        except BlockingIOError:
            self._file.seek(0)
            process = self._file.read(20).decode(errors="replace").strip()
            self._file.close()
            who = f"another process ({process})" if process.isdigit() else "another process"
            raise BlockingIOError(f"{folder} is in use by {who}: wait for it, or choose another folder") from None
        with suppress(OSError):  # a full disk: whoever comes next is not told who is here
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n".encode())
        for path in folder.iterdir():
            if is_temporary(path):
                path.unlink(missing_ok=True)

    def release(self) -> None:
        """Lets others in."""
        self._file.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def lock(handle: int) -> None:
    """Locks an open file for this process, or raises BlockingIOError where another has done so."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return  # a disk without locks


def prepare_run(out: Path, about: dict[str, Any], resume: bool, **more: Any) -> Hold:
    """Makes the folder, holds it, and writes its record; refuses a folder that holds something else.

    :param about: what makes the result, as JSON values; a run is resumed only where all of it is the same
    :param resume: go on with the run that is there, if there is one
    :param more: what else to keep in the record; where a run goes on with something else, both are kept
    :return: the hold on the folder, to be released when the work is done
    """
    refuse_foreign(out)
    out.mkdir(parents=True, exist_ok=True)
    hold = Hold(out)
    try:
        record = out / RECORD
        if record.exists():
            if not resume:
                raise FileExistsError(f"{out} holds a run already: resume it, or choose another folder")
            check_same(record, about, f"{out} holds a run with")
            more = gone_on_with(read_record(record), more)
        write_atomically(record, json.dumps({**about, **more}, indent=2).encode())
    except BaseException:
        hold.release()
        raise
    return hold


def gone_on_with(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """What a run began with, and under `resumed` what it went on with where that is something else."""
    first = {key: before.get(key, value) for key, value in more.items()}
    known = [first, *before.get("resumed", [])]
    resumed = known[1:] if json.loads(json.dumps(more)) in known else [*known[1:], more]
    return {**first, "resumed": resumed} if resumed else first


def refuse_foreign(out: Path) -> None:
    """Refuses a folder with files in it that no run has left there."""
    if out.exists() and not (out / RECORD).exists():
        foreign = [path for path in out.iterdir() if path.name != LOCK and not is_temporary(path)]
        if foreign:
            raise FileExistsError(f"{out} is not empty, and holds no run: choose another folder")


def check_same(record: Path, about: dict[str, Any], begun: str) -> None:
    """Refuses a record that says something else of what makes the result.

    :param begun: how the sentence begins, such as "runs/a holds a run with"
    """
    before = read_record(record)
    about = json.loads(json.dumps(about))
    other = sorted(key for key, value in about.items() if before.get(key) != value)
    if other:
        told = differences({key: before.get(key) for key in other}, {key: about[key] for key in other})
        raise ValueError(f"{begun} another {' and '.join(other)}: use the same, or another folder ({'; '.join(told)})")


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two JSON values, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                found += differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        return found
    words = [text if len(text := str(value)) <= 40 else f"{text[:37]}..." for value in (before, now)]
    return [f"{name}: {words[0]} there, {words[1]} here"]


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in a record."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a readable record, or was cut short ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a record: it should be a JSON object, and is {type(found).__name__}")
    return found


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def seed_of(seed: int, step: int) -> int:
    """A seed for what comes after a step of a run."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) % 2**31
