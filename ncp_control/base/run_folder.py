"""The folder of a long piece of work, with its record, lock and learning curve, and what kinds of files there are.

The record says what makes the result, so that the work is resumed as what it was and anybody can repeat it. The lock
keeps a second process out.
"""

from __future__ import annotations

import csv
import json
import os
import zipfile
from contextlib import suppress
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ncp_control.base.files import is_temporary, lock, sweep, write_atomically

RECORD, LOCK = "run.json", ".lock"
LARGEST_RECORD = 2**24  # bytes; a record has thousands


class Hold:
    """Keeps other processes out of a folder until `release` or the end of a `with` block.

    The operating system locks a file in the folder for this process, and unlocks it when the process ends, even if it
    is killed. Systems and disks without such locks (Windows, some network disks) keep nobody out.
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


def prepare_run(out: Path, about: dict[str, Any], resume: bool, results: tuple[str, ...] = (), **more: Any) -> Hold:
    """Makes a folder, locks it, and writes its record; refuses a folder with other files in it.

    A run that ended before it had a result does not count, and its record is replaced.

    :param out: the folder
    :param about: what makes the result, as JSON values; a run is resumed only if all of these are the same
    :param resume: go on with the run in the folder, if there is one
    :param results: the files of which a run that has a result has at least one; without names every run counts
    :param more: other entries of the record; if they differ when a run is resumed, the record keeps both
    :return: the lock, to be released when the work is done
    """
    refuse_foreign(out)
    out.mkdir(parents=True, exist_ok=True)
    hold = Hold(out)
    try:
        record = out / RECORD
        if record.exists() and (not results or any((out / name).exists() for name in results)):
            if not resume:
                raise FileExistsError(f"{out} holds a run already: resume it, or choose another folder")
            check_same(record, about, f"{out} holds a run with")
            more = merge_entries(read_record(record), more)
        write_atomically(record, json.dumps({**about, **more}, indent=2).encode())
    except BaseException:
        hold.release()
        raise
    return hold


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
            raise FileExistsError(f"{out} is not empty, and holds no run: choose another folder")


def check_same(record: Path, about: dict[str, Any], begun: str) -> None:
    """Raises ValueError if a record differs in what makes the result.

    :param record: the file
    :param about: what makes the result now
    :param begun: the beginning of the sentence, such as "runs/a holds a run with"
    """
    before = read_record(record)
    about = json.loads(json.dumps(about))
    other = sorted(key for key, value in about.items() if before.get(key) != value)
    if other:
        told = differences({key: before.get(key) for key in other}, {key: about[key] for key in other})
        raise ValueError(f"{begun} another {' and '.join(other)}: use the same, or another folder ({'; '.join(told)})")


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    """Says in words where two JSON values differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                found += differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        return found
    words = [text if len(text := str(value)) <= 40 else f"{text[:37]}..." for value in (before, now)]
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
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def seed_of(seed: int, step: int) -> int:
    """Returns the seed for what follows a step of a run."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) % 2**31


class Kind(Enum):
    """A kind of file or folder; the value is its name in messages."""

    NETWORK = "a network"
    POLICY = "a policy"
    DYNAMICS = "a model of the dynamics"
    SERIES = "a model of series"
    TRAINING_STATE = "the state of a training"
    FIT_STATE = "the state of a fit"
    DISTIL_STATE = "the state of a distillation"
    WIRING = "a wiring"
    RECORDING = "a recording"
    ROLLOUTS = "rollouts"
    RUN = "the folder of a run"
    STABLE_BASELINES = "a model of Stable-Baselines3"


# The `format` in the metadata of our safetensors files.
FORMATS = {
    "ncp_control.rnn": Kind.NETWORK,
    "ncp_control.policy": Kind.POLICY,
    "ncp_control.dynamics": Kind.DYNAMICS,
    "ncp_control.series": Kind.SERIES,
    "ncp_control.training": Kind.TRAINING_STATE,
    "ncp_control.fit": Kind.FIT_STATE,
    "ncp_control.distil": Kind.DISTIL_STATE,
}
SUFFIXES = {
    ".safetensors": Kind.NETWORK,
    ".json": Kind.WIRING,
    ".npy": Kind.ROLLOUTS,
    ".npz": Kind.ROLLOUTS,
}
# Members that only these archives have.
ARCHIVES = {
    Kind.RECORDING: {"about.npy", "wiring.npy"},
    Kind.STABLE_BASELINES: {"data", "_stable_baselines3_version"},
}


def kind_of(path: str | Path) -> Kind | None:
    """Tells what is at a path; None means that nothing of ours looks like it.

    Where the contents do not tell, because the file is missing or damaged, the suffix decides, so that the right reader
    says what is wrong with the file. A folder that holds no run is taken for rollouts.
    """
    path = Path(path)
    if path.is_dir():
        return Kind.RUN if (path / RECORD).is_file() else Kind.ROLLOUTS
    by_suffix = SUFFIXES.get(path.suffix)
    if not path.is_file():  # nor is a named pipe opened, which would wait for its writer
        return by_suffix
    return _kind_of_archive(path) or FORMATS.get(read_metadata(path).get("format", "")) or by_suffix


def read_metadata(path: str | Path) -> dict[str, str]:
    """Reads the texts in the header of a safetensors file, and no tensor; none where it is no such file."""
    try:
        with safe_open(path, framework="np") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def _kind_of_archive(path: Path) -> Kind | None:
    try:
        with path.open("rb") as file:
            if file.read(2) != b"PK":
                return None
            with zipfile.ZipFile(file) as archive:
                names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    return next((kind for kind, members in ARCHIVES.items() if members <= names), None)


CURVE = "curve.csv"


def read_curve(run: Path) -> list[dict[str, float]]:
    """Returns the rows of a run's curve; none if the run has not written one yet."""
    if not (run / CURVE).is_file():
        return []
    with (run / CURVE).open(encoding="utf-8", newline="") as file:
        try:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        except (ValueError, TypeError, csv.Error) as error:
            raise ValueError(f"{run / CURVE} is not a readable curve: it was altered") from error
