"""Odd but undamaged data: every command either works on it, with finite numbers, or refuses it in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ncp_control.cli import main

LENGTHS = (1, 2, 3, 9, 33, 60, 150)
ODD = ("constant", "offset", "nan", "huge", "tiny", "int", "bool", "bytes", "columns", "none")


def odd(values: np.ndarray[Any, Any], random: Random) -> np.ndarray[Any, Any]:
    """Makes something odd of an array, or leaves it."""
    column, row = random.randrange(values.shape[-1]), random.randrange(len(values))
    what = random.choice(ODD) if random.random() < 0.2 else ""
    if what == "constant":
        values[..., column] = 3.0
    elif what == "offset":
        values[..., column] += 1e9
    elif what == "nan":
        values[row] = random.choice([np.nan, np.inf])
    elif what in ("huge", "tiny"):
        values = values * {"huge": 1e200, "tiny": 1e-200}[what]
    elif what in ("int", "bool"):
        values = values.astype({"int": np.int16, "bool": bool}[what])
    elif what == "bytes":
        values = values.astype(">f4")
    elif what == "columns":
        values = np.asfortranarray(values)
    elif what == "none":
        values = values[..., :0]
    return values


def write(folder: Path, random: Random) -> None:
    """Writes a folder of traces, which may be empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    numbers = np.random.default_rng(random.randrange(2**32))
    features, acts, timed = random.choice([1, 3]), random.random() < 0.7, random.random() < 0.4
    rewarded = random.random() < 0.3
    lengths = LENGTHS if random.random() < 0.4 else LENGTHS[-1:]
    for k in range(random.choice([0, 1, 1, 2, 3, 5])):
        length = random.choice(lengths)
        arrays = {"observations": odd(numbers.normal(size=(length, features)), random)}
        if acts:
            arrays["actions"] = odd(numbers.normal(size=(length - 1, 1)), random) if length > 1 else np.ones((0, 1))
        if timed:
            times = numbers.choice([0.0, 1.0, 2.0, -1.0] if random.random() < 0.2 else [0.0, 1.0, 2.0], length)
            arrays["elapsed"] = times
        if rewarded:
            arrays["rewards"] = numbers.normal(size=length - 1)
        np.savez(folder / f"{k}.npz", **arrays)


def numbers_in(found: Any) -> list[float]:
    """All numbers in JSON values."""
    if isinstance(found, dict):
        return [number for value in found.values() for number in numbers_in(value)]
    if isinstance(found, list):
        return [number for value in found for number in numbers_in(value)]
    return [float(found)] if isinstance(found, int | float) else []


def outcome(words: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    """Runs a command; whether it worked, which is checked either way."""
    code = main([*words, "--json"])
    out, err = capsys.readouterr()
    if code == 0:
        assert np.isfinite(numbers_in(json.loads(out[out.index("{") :]))).all(), out
        return True
    told = [line for line in err.splitlines() if not line.startswith("fitting") and " are not used: " not in line]
    assert code == 2, err
    assert len(told) == 1, err
    assert len(told[0]) < 400, err
    return False


@pytest.mark.system
@pytest.mark.filterwarnings("error")
def test_odd_rollouts(times: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked = {"describe": 0, "fit": 0, "evaluate": 0}
    tried = 60 * times
    data, run = tmp_path / "data", tmp_path / "run"
    faults = []
    for seed in range(tried):
        random = Random(seed)
        write(data, random)
        cell = random.choice(["gru", "ltc", "mlp"])
        actions = ["--actions"] if random.random() < 0.5 else []
        fit = ["fit", str(data), *actions, "--cell", cell, "--units", "3", "--epochs", "1", "--length", "8"]
        try:
            worked["describe"] += outcome(["describe", str(data)], capsys)
            shutil.rmtree(run, ignore_errors=True)
            if outcome([*fit, "--device", "cpu", "--out", str(run)], capsys):
                worked["fit"] += 1
                words = ["evaluate", str(run / "best.safetensors"), "--data", str(data)]
                worked["evaluate"] += outcome(words, capsys)
        except (Exception, AssertionError) as error:
            faults.append(f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    assert not faults, "\n".join(faults)
    assert tried / 10 < min(worked.values()) < 0.9 * tried
