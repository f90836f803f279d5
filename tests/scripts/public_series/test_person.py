"""Person activity: tags as inputs, eleven activities in seven classes, and the two settings."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.person import ACTIVITIES, TAGS
from scripts.public_series.sets import load_public

TAG = list(TAGS)
START = 633790226051280329  # a time of the file, in units of 100 ns


def reading(name: str, t: int, activity: str = "walking", tag: int = 0, units: int = 270_000) -> str:
    return f"{name},{TAG[tag]},{START + units * t},27.05.2009 14:03:25:127,{t}.5,-1.25,0.5,{activity}"


def write(folder: Path, lines: list[str]) -> None:
    (folder / "ConfLongDemo_JSI.txt").write_text("\n".join(lines) + "\n")


def test_the_first_setting_has_windows_of_32_readings(tmp_path: Path) -> None:
    words = [*ACTIVITIES]
    lines = [reading("A01", t, words[t % len(words)], t % 4) for t in range(64)]
    write(tmp_path, lines + [reading("E05", t) for t in range(40)])
    data = load_public("person-1", tmp_path)
    names = ["A01, rows 0 to 31", "A01, rows 16 to 47", "A01, rows 32 to 63", "E05, rows 0 to 31"]
    assert [series.name for series in data.series] == names
    assert Counter(data.meta["parts"]) == {"train": 2, "valid": 1, "test": 1}
    assert data.series[0].inputs[:2].tolist() == [[1, 0, 0, 0, 0.5, -1.25, 0.5], [0, 1, 0, 0, 1.5, -1.25, 0.5]]
    assert data.series[0].targets[:11].tolist() == list(ACTIVITIES.values())[:11]
    assert data.series[0].elapsed is None
    assert len(data.classes) == 7
    assert set(ACTIVITIES.values()) == set(range(7))
    assert data.inputs == ("left ankle", "right ankle", "chest", "belt", "x", "y", "z")


def test_the_second_setting_has_sequences_of_50_points_in_time(tmp_path: Path) -> None:
    """Of 101 points, sequences begin at 0, 25 and 50 (the last must end before the recording does); of 100, at 0 and
    25."""
    write(tmp_path, [reading("A01", t) for t in range(101)] + [reading("A02", t) for t in range(100)])
    data = load_public("person-2", tmp_path)
    names = [f"{name}, points {k} to {k + 49}" for name, k in (("A01", 0), ("A01", 25), ("A01", 50), ("A02", 0))]
    assert [series.name for series in data.series] == [*names, "A02, points 25 to 74"]
    assert all(series.inputs.shape == (50, 7) for series in data.series)
    assert data.series[1].inputs[0, 4] == 25.5
    first = int(np.random.RandomState(42).permutation(5)[0])
    assert data.meta["parts"][first] == "test"
    assert Counter(data.meta["parts"]) == {"train": 3, "valid": 1, "test": 1}
    again = load_public("person-2", tmp_path, seed=5)
    assert [p == "test" for p in again.meta["parts"]] == [p == "test" for p in data.meta["parts"]]


def test_readings_at_one_point_in_time_stay_together(tmp_path: Path) -> None:
    """Two readings 20,000 units apart are one point, so that 50 points are 100 readings."""
    alone = [reading("A01", t, units=300_000) for t in range(130)]
    times = [str(START + 300_000 * t) for t in range(130)]
    beside = [
        line.replace(TAG[0], TAG[1]).replace(time, str(int(time) + 20_000))
        for line, time in zip(alone, times, strict=True)
    ]
    lines = [line for pair in zip(alone, beside, strict=True) for line in pair]
    write(tmp_path, lines)
    data = load_public("person-2", tmp_path)
    assert len(data.series) == 4  # at the points 0, 25, 50 and 75
    assert [len(series.inputs) for series in data.series] == [100] * 4
    assert data.series[1].inputs[:2, [0, 1, 4]].tolist() == [[1, 0, 25.5], [0, 1, 25.5]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TAG[0], "010", "row 2: '010' is none of 010-000-024-033, "),
        ("walking", "flying", "row 2: 'flying' is none of walking, "),
        (",-1.25,", ",", "row 2 has 7 columns, and should have 8"),
        (",-1.25,", ",low,", "row 2: 'low' is not a number"),
        (str(START + 270_000), "noon", "row 2: 'noon' is not a number"),
    ],
)
def test_wrong_rows_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, [reading("A01", 0), reading("A01", 1).replace(old, new)])
    for setting in ("person-1", "person-2"):
        with pytest.raises(ValueError, match=re.escape(message)):
            load_public(setting, tmp_path)
