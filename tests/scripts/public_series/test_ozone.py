"""Ozone days: dates as in America, question marks, and days without a row."""

import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from ncp_control.series.data import NO_CLASS
from scripts.public_series.sets import load_public


def line(day: int, values: list[object], answer: str = "0.") -> str:
    when = date(1998, 1, 1) + timedelta(days=day)
    return ",".join([f"{when.month}/{when.day}/{when.year}", *map(str, values), answer])


def write(folder: Path, lines: list[str]) -> None:
    (folder / "eighthr.data").write_text("\n".join(lines) + "\n")


def test_days_are_whole_windows_of_72_inputs(tmp_path: Path) -> None:
    lines = [line(t, [t, *["?"] * (t == 3), *[0.5] * (71 - (t == 3))], "1." if t == 9 else "0.") for t in range(60)]
    del lines[20]
    write(tmp_path, lines)
    data = load_public("ozone", tmp_path)
    assert [series.name for series in data.series] == [f"ozone, rows {k} to {k + 31}" for k in range(0, 29, 4)]
    assert Counter(data.meta["parts"]) == {"train": 6, "valid": 1, "test": 1}
    assert len(data.inputs) == len(set(data.inputs)) == 72
    assert (data.inputs[0], data.inputs[26], data.inputs[52], data.inputs[71]) == ("WSR0", "T0", "T85", "Precp")
    assert data.classes == ("normal day", "ozone day")
    assert data.meta["class_weights"] == [1, 15]
    assert data.meta["score"] == "F1"
    one = data.series[0]
    assert one.inputs.shape == (32, 72)
    assert np.isnan(one.inputs[20]).all()
    assert np.isnan(one.inputs).sum() == 72 + 1
    assert np.isnan(one.inputs[3, 1])
    assert (one.targets.tolist().index(1), one.targets[20], one.targets[0]) == (9, NO_CLASS, 0)
    scale = data.meta["scale"]["inputs"]
    assert one.inputs[31, 0] * scale["deviation"][0] + scale["mean"][0] == pytest.approx(31)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (line(1, [0.5] * 71), "row 2 has 73 columns, and should have 74"),
        (line(1, [0.5] * 72, "2."), "row 2: '2.' is none of 0., 1."),
        (line(1, ["warm", *[0.5] * 71]), "row 2: 'warm' is not a number"),
        (line(1, [0.5] * 72).replace("1/2/1998", "13/2/1998"), "row 2: '13/2/1998' is not a date such as 12/31/1998"),
        (line(1, [0.5] * 72).replace("1998", "2998"), "its dates are more than a hundred years apart"),
    ],
)
def test_wrong_rows_are_refused(wrong: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, [line(0, [0.5] * 72), wrong])
    with pytest.raises(ValueError, match=re.escape(message)):
        load_public("ozone", tmp_path)
