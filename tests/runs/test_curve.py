"""The learning curve of a run: its best row, and its table."""

from pathlib import Path

import pytest

from ncp_control.runs.curve import CURVE, LearningCurve, read_curve

ROWS = [(1, 0.5, 3.0), (2, 0.25, 1.0), (3, 0.125, 2.0), (4, 0.0, 1.0)]


@pytest.mark.parametrize(("least", "best", "records"), [(True, 1, [0, 1]), (False, 0, [0])])
def test_the_best_row_is_the_first_of_the_best(least: bool, best: int, records: list[int]) -> None:
    curve: LearningCurve[tuple[int, float, float]] = LearningCurve(("epoch", "loss", "valid"), "valid", least)
    assert curve.best_row is None
    assert [k for k, row in enumerate(ROWS) if curve.add(row)] == records
    assert (curve.best, curve.best_row) == (best, ROWS[best])


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    curve: LearningCurve[tuple[int, float, float]] = LearningCurve(("epoch", "loss", "valid"), "valid", least=True)
    assert read_curve(tmp_path) == []
    for row in ROWS:
        curve.add(row)
    curve.write(tmp_path)
    assert read_curve(tmp_path) == [dict(zip(curve.columns, row, strict=True)) for row in ROWS]


@pytest.mark.parametrize("text", ["epoch,loss\n1,x\n", "epoch,loss\n1\n", "epoch\n1,2\n"])
def test_a_table_that_was_altered_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / CURVE).write_text(text)
    with pytest.raises(ValueError, match=r"curve\.csv is not a readable curve: it was altered"):
        read_curve(tmp_path)
