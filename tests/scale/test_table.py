"""The table of a sweep, against numbers that were computed by hand."""

from __future__ import annotations

import csv
import io
import math

import pytest

from ncp_control.scale.table import COLUMNS, SettingRow, table_csv, table_text


def training(best: float, last: float = 0.0, steps: int = 1000, seconds: float = 2.0) -> dict[str, float]:
    return {"best_return": best, "last_return": last, "steps": steps, "seconds": seconds}


def fitted(valid: float) -> dict[str, float]:
    return {"valid_mse": valid, "test_mse": 2 * valid, "epochs": 5, "seconds": 1.0}


# 2, 4, 4, 4, 5, 5, 7, 9 have the mean 5, and the squares of their distances from it add up to 32.
NUMBERS = (2, 4, 4, 4, 5, 5, 7, 9)


def test_mean_and_spread() -> None:
    row = SettingRow("a", 8, [training(number) for number in NUMBERS])
    assert row.mean("best_return") == 5
    assert row.spread("best_return") == pytest.approx(math.sqrt(32 / 7))
    one, none = SettingRow("a", 2, [training(3)]), SettingRow("a", 2, [])
    assert one.mean("best_return") == 3
    assert math.isnan(one.spread("best_return"))
    assert math.isnan(none.mean("best_return"))
    assert math.isnan(none.spread("best_return"))


def test_the_table_in_words() -> None:
    rows = [
        SettingRow("a x=1", 8, [training(number, last=-1234.56) for number in NUMBERS]),
        SettingRow("a x=22", 2, [training(3.14, 2.0, 10_000)]),
        SettingRow("none", 2, []),
    ]
    assert table_text("train", rows).splitlines() == [
        "         seeds  best return  worst      last return   steps  seconds",
        "a x=1   8 of 8   5.0 +- 2.1    2.0  -1,234.6 +- 0.0   1,000        2",
        "a x=22  1 of 2          3.1    3.1              2.0  10,000        2",
        "none    0 of 2",
    ]


def test_the_worst_error_is_the_largest() -> None:
    text = table_text("fit", [SettingRow("a", 2, [fitted(0.5), fitted(0.25)])])
    assert " ".join(text.splitlines()[1].split()) == "a 2 of 2 0.375 +- 0.1768 0.5 0.75 +- 0.3536 5 1"


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_csv_has_the_exact_numbers(kind: str) -> None:
    results = [{name: value / 3 for name, _ in COLUMNS[kind]} for value in NUMBERS]
    (row, empty) = csv.DictReader(
        io.StringIO(table_csv(kind, [SettingRow('a, "b"', 9, results), SettingRow("none", 1, [])]))
    )
    assert (row["setting"], row["seeds"], row["finished"]) == ('a, "b"', "9", "8")
    for name, _ in COLUMNS[kind]:
        assert float(row[f"{name}_mean"]) == pytest.approx(5 / 3, rel=1e-15)
        assert float(row[f"{name}_std"]) == pytest.approx(math.sqrt(32 / 7) / 3, rel=1e-15)
        assert math.isnan(float(empty[f"{name}_mean"]))


def test_a_setting_is_no_formula_in_a_spreadsheet() -> None:
    (row,) = csv.DictReader(io.StringIO(table_csv("fit", [SettingRow("=1+1", 1, [])])))
    assert row["setting"] == "'=1+1"


def test_a_return_that_is_not_a_number_is_shown_as_such() -> None:
    text = table_text("train", [SettingRow("a", 2, [training(float("nan")), training(1.0)])])
    assert "nan" in text.splitlines()[1]
