"""The folder of one long piece of work: its record, so that it is resumed as what it was and repeated by anybody."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.files import write_atomically

RECORD = "run.json"


def prepare_run(out: Path, about: dict[str, Any], resume: bool, **more: Any) -> None:
    """Makes the folder and writes its record; refuses a folder that holds something else.

    :param about: what makes the result, as JSON values; a run is resumed only where all of it is the same
    :param resume: go on with the run that is there, if there is one
    :param more: what else to keep in the record
    """
    record = out / RECORD
    if record.exists():
        if not resume:
            raise FileExistsError(f"{out} holds a run already: resume it, or choose another folder")
        before = json.loads(record.read_text(encoding="utf-8"))
        other = sorted(key for key, value in json.loads(json.dumps(about)).items() if before.get(key) != value)
        if other:
            raise ValueError(f"{out} holds a run with another {' and '.join(other)}: use the same, or another folder")
    elif out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} is not empty, and holds no run: choose another folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps({**about, **more}, indent=2).encode())


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
