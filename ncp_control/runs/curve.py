"""The learning curve of a run: a row of numbers for every evaluation, and which row is the best."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ncp_control.base.files import write_atomically

CURVE = "curve.csv"

Row = TypeVar("Row", bound=tuple[Any, ...])


class LearningCurve(Generic[Row]):
    """A learning curve.

    :param columns: the names of the numbers in a row
    :param judged: the name of the number by which the best row is chosen
    :param least: whether the least such number is the best, as of an error, or the greatest, as of a return
    """

    def __init__(self, columns: Sequence[str], judged: str, least: bool = False) -> None:
        self.columns = tuple(columns)
        self.rows: list[Row] = []
        self.best: int | None = None  # the number of the best row; of equal ones, the first
        self._judged, self._sign = self.columns.index(judged), -1 if least else 1

    @property
    def best_row(self) -> Row | None:
        """The best row; None if there is no row yet."""
        return None if self.best is None else self.rows[self.best]

    def add(self, row: Row) -> bool:
        """Adds a row, and returns whether it is the best so far."""
        self.rows.append(row)
        best = self.best_row
        if best is not None and not self._sign * row[self._judged] > self._sign * best[self._judged]:
            return False
        self.best = len(self.rows) - 1
        return True

    def write(self, folder: Path) -> None:
        """Writes the table `curve.csv` in a folder."""
        lines: list[tuple[Any, ...]] = [self.columns, *self.rows]
        write_atomically(folder / CURVE, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


def read_curve(folder: Path) -> list[dict[str, float]]:
    """Returns the rows of the curve in a run's folder, by column; none if the run has not written one yet."""
    if not (folder / CURVE).is_file():
        return []
    with (folder / CURVE).open(encoding="utf-8", newline="") as file:
        try:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        except (ValueError, TypeError, csv.Error) as error:
            raise ValueError(f"{folder / CURVE} is not a readable curve: it was altered") from error
