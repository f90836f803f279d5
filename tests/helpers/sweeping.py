"""Small sweeps, and whether two of them found the same."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

from helpers.long_commands import PPO_RECIPE
from ncp_control.scale import Sweep

# What differs between two sweeps that found the same: logs with times in them, and locks.
NOT_COMPARED = ("board", ".lock", "logs", "run.json", "table.txt", "curves.png")
OPTIONS = ("--eval-every", "96", "--checkpoint-every", "64")


def small_sweep(folder: Path, seeds: tuple[int, ...] = (0, 1), steps: int = 192, **more: Any) -> Sweep:
    """Returns a sweep over two learning rates, whose trainings take a second each."""
    recipe = folder / "small.yml"
    recipe.write_text(PPO_RECIPE)
    values = {"learning_rate": ["lin_3e-3", "1e-3"]}
    return Sweep([str(recipe)], seeds, values, options=("--steps", str(steps), *OPTIONS), **more)


def contents(out: Path) -> dict[str, str]:
    """Returns the hash, or the text without times, of every file that two equal sweeps have alike."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if not path.is_file() or any(part in NOT_COMPARED for part in Path(name).parts):
            continue
        found[name] = without_times(path)
    return found


def without_times(path: Path) -> str:
    """Returns the hash of a file's content, without the time that a run took."""
    if path.suffix == ".json":
        record = json.loads(path.read_text())
        return json.dumps({key: value for key, value in record.items() if key != "seconds"})
    if path.name == "table.csv":
        rows = list(csv.DictReader(path.open(newline="")))
        return json.dumps([{key: value for key, value in row.items() if "seconds" not in key} for row in rows])
    if path.name == "state.safetensors":  # its description has the seconds of the run
        from safetensors.numpy import load_file

        tensors = load_file(path)
        return hashlib.sha256(b"".join(key.encode() + tensors[key].tobytes() for key in sorted(tensors))).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()
