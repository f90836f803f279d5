"""The table of a comparison."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from ncp_control.dynamics.table import RowResult, paired_p, table_text, write_tables


def differing_by(gaps: list[float]) -> float:
    """Returns p of two rows whose errors differ by these gaps, seed by seed."""
    errors = [1.0 + 0.1 * k for k in range(len(gaps))]
    return paired_p(
        RowResult("a", errors, 3), RowResult("b", [error - gap for error, gap in zip(errors, gaps, strict=True)], 3)
    )


@pytest.mark.parametrize("gaps", [[0.3, 0.2, 0.4], [0.3, -0.2, 0.4], [-1.0, -1.5, -1.2], [2.0, 2.001, 2.002]])
def test_three_pairs_give_students_p_of_two_degrees_of_freedom(gaps: list[float]) -> None:
    t = np.mean(gaps) / (np.std(gaps, ddof=1) / 3**0.5)
    assert differing_by(gaps) == pytest.approx(1 - abs(t) / math.sqrt(t**2 + 2), rel=1e-6)


@pytest.mark.parametrize(
    "gaps", [[0.3, 0.2, 0.4, 0.1, 0.2], [0.3, -0.2, 0.4, 0.0, 0.1], [-1.0, -1.5, -1.2, -0.1, -2.0]]
)
def test_five_pairs_give_students_p_of_four_degrees_of_freedom(gaps: list[float]) -> None:
    t = np.mean(gaps) / (np.std(gaps, ddof=1) / 5**0.5)
    share = t / math.sqrt(t**2 + 4)  # the sine of the angle whose tangent is t / 2
    assert differing_by(gaps) == pytest.approx(1 - abs(share) * (1 + (1 - share**2) / 2), rel=1e-6)


def test_rows_that_always_differ_by_the_same_are_told_apart() -> None:
    assert differing_by([0.0, 0.0, 0.0]) == 1
    one = RowResult("a", [1.0, 2.0, 3.0], 3)
    assert paired_p(one, RowResult("b", [0.5, 1.5, 2.5], 3)) == 0


def test_only_seeds_that_both_rows_have_are_compared() -> None:
    one, two = [1.0, 1.2, 0.9, 1.1, 1.3], [1.3, 1.4, 1.3, 1.4, 1.5]
    whole = RowResult("a", one, 3)
    failed = RowResult("c", [None, *two[1:]], 3, seconds=2.0, published=(2.3, 0.01))
    assert paired_p(whole, failed) == paired_p(RowResult("a", one[1:], 3), RowResult("b", two[1:], 3)) < 0.05
    assert np.isnan(paired_p(RowResult("a", one[:2], 3), RowResult("b", two[:2], 3)))
    assert np.isnan(paired_p(whole, RowResult("b", two[:4], 3)))


def test_the_text_has_sizes_fits_and_published_errors() -> None:
    one = RowResult("LTC", [1.0, 1.2, 0.9, 1.1, 1.3], 1234, 5.0)
    failed = RowResult("c", [None, 1.4, 1.3, 1.4, 1.5], 3, seconds=2.0, published=(2.3, 0.01))
    text = table_text([one, failed])
    assert "1,234" in text
    assert "4 of 5" in text
    assert "2.300 ± 0.010" in text
    assert "1.1" in text


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_the_name_of_a_file_is_no_formula_in_a_spreadsheet(name: str, tmp_path: Path) -> None:
    row = RowResult(name, [1.0], 3, rollouts=[[(name, -0.5), ("walk", None)]])
    write_tables([row], tmp_path, "raw")
    with (tmp_path / "rollouts.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert found[1:] == [[f"'{name}", "0", f"'{name}", "-0.5"], [f"'{name}", "0", "walk", ""]]
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file))[1][0] == f"'{name}"
