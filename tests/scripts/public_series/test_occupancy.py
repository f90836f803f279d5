"""Room occupancy: one file to learn from, two to be tested with."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.sets import load_public

HEADER = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"'


def write(folder: Path, name: str, rows: int, answer: str = "1") -> None:
    lines = [HEADER]
    for t in range(rows):
        when = f"2015-02-04 {17 + t // 60}:{t % 60:02d}:00"
        lines.append(f'"{t + 1}","{when}",{20 + t % 2},27.5,{t},700,0.004,{answer if t % 4 else 0}')
    (folder / name).write_text("\n".join(lines) + "\n")


def test_the_test_files_are_the_test_part_and_the_training_file_gives_the_scale(tmp_path: Path) -> None:
    write(tmp_path, "datatraining.txt", 32 + 9 * 16)
    write(tmp_path, "datatest.txt", 50)
    write(tmp_path, "datatest2.txt", 32)
    data = load_public("occupancy", tmp_path)
    assert Counter(data.meta["parts"]) == {"train": 9, "valid": 1, "test": 3}
    assert data.meta["parts"][10:] == ["test"] * 3
    assert [series.name for series in data.series[10:]] == [
        "datatest, rows 0 to 31", "datatest, rows 16 to 47", "datatest2, rows 0 to 31"
    ]  # fmt: skip
    assert data.inputs == ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
    assert data.classes == ("empty", "occupied")
    last = data.series[-1]
    assert last.inputs.shape == (32, 5)
    assert last.inputs[:4, 0] == pytest.approx([-1, 1, -1, 1])  # 20 and 21 equally often in training
    light = np.arange(176)
    assert last.inputs[:, 2] == pytest.approx((np.arange(32) - light.mean()) / light.std())
    assert last.targets[:5].tolist() == [0, 1, 1, 1, 0]


def test_an_answer_that_is_neither_is_refused(tmp_path: Path) -> None:
    for name in ("datatraining.txt", "datatest.txt", "datatest2.txt"):
        write(tmp_path, name, 64, answer="2" if name == "datatest.txt" else "1")
    with pytest.raises(ValueError, match=re.escape("datatest.txt, row 3: '2' is none of 0, 1")):
        load_public("occupancy", tmp_path)


def test_test_files_that_are_too_short_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "datatraining.txt", 100)
    write(tmp_path, "datatest.txt", 31)
    write(tmp_path, "datatest2.txt", 31)
    with pytest.raises(ValueError, match=re.escape("the files of occupancy have too few rows: there is no series for")):
        load_public("occupancy", tmp_path)
