"""The learning curve of a run: a table of numbers, one row for each evaluation."""

from __future__ import annotations

import csv
from pathlib import Path

CURVE = "curve.csv"


def read_curve(run: Path) -> list[dict[str, float]]:
    """Returns the rows of a run's curve; none if the run has not written one yet."""
    if not (run / CURVE).is_file():
        return []
    with (run / CURVE).open(encoding="utf-8", newline="") as file:
        try:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        except (ValueError, TypeError, csv.Error) as error:
            raise ValueError(f"{run / CURVE} is not a readable curve: it was altered") from error
