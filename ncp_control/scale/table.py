"""The table of a sweep: for every setting the mean and the spread over its seeds."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncp_control.base.text import csv_cell

# What the table shows of each command's results, by the entry's name, and how a number of it is written.
COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "train": (("best_return", ",.1f"), ("last_return", ",.1f"), ("steps", ",.0f"), ("seconds", ",.0f")),
    "distil": (("return", ",.1f"), ("share", ".3f"), ("steps", ",.0f"), ("seconds", ",.0f")),
    "fit": (("valid_mse", ".4g"), ("test_mse", ".4g"), ("epochs", ",.0f"), ("seconds", ",.0f")),
}
LOWER_IS_BETTER = ("fit",)


@dataclass(frozen=True)
class SettingRow:
    """The results of one setting.

    :param label: the setting in words
    :param seeds: how many runs it has
    :param results: those of the runs that are finished
    """

    label: str
    seeds: int
    results: Sequence[dict[str, Any]]

    def numbers(self, name: str) -> list[float]:
        """Returns one entry of the finished runs."""
        return [float(result[name]) for result in self.results]

    def mean(self, name: str) -> float:
        """Returns the mean over the finished runs; NaN if there is none."""
        return float(np.mean(self.numbers(name))) if self.results else float("nan")

    def spread(self, name: str) -> float:
        """Returns the standard deviation with n - 1; NaN for fewer than two finished runs."""
        return float(np.std(self.numbers(name), ddof=1)) if len(self.results) > 1 else float("nan")


def table_text(kind: str, rows: Sequence[SettingRow]) -> str:
    """Writes the table as text, with mean and standard deviation (n - 1), and the worst of the first column."""
    names = [name for name, _ in COLUMNS[kind]]
    worst = max if kind in LOWER_IS_BETTER else min
    head = ["", "seeds", names[0], "worst", *names[1:]]
    lines = [[cell.replace("_", " ") for cell in head]]
    for row in rows:
        cells = [row.label, f"{len(row.results)} of {row.seeds}"]
        for k, (name, form) in enumerate(COLUMNS[kind]):
            exact = name in ("steps", "epochs", "seconds")
            spread = "" if exact or len(row.results) < 2 else f" +- {row.spread(name):{form}}"
            cells.append(f"{row.mean(name):{form}}{spread}" if row.results else "")
            if k == 0:
                cells.append(f"{worst(row.numbers(name)):{form}}" if row.results else "")
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if k == 0 else f"{cell:>{width}}"
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def table_csv(kind: str, rows: Sequence[SettingRow]) -> str:
    """Writes the table as CSV."""
    text = io.StringIO()
    names = [name for name, _ in COLUMNS[kind]]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["setting", "seeds", "finished", *(f"{name}_{what}" for name in names for what in ("mean", "std"))])
    for row in rows:
        numbers = [value for name in names for value in (row.mean(name), row.spread(name))]
        writer.writerow([csv_cell(row.label), row.seeds, len(row.results), *numbers])
    return text.getvalue()
