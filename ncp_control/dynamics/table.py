"""A comparison as a table, a CSV file and a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.support.pictures import new_figure, save_figure

REFERENCE = "LTC"
HEAD = ("model", "parameters", "error", "spread", "fits", "published", "p", "seconds")


@dataclass(frozen=True)
class Line:
    """What came of a row.

    :param name: of the row
    :param errors: test errors, one a seed; None of a fit that failed
    :param parameters: numbers that were fitted
    :param seconds: of a fit, in the mean; None where nothing was fitted
    :param published: mean and spread in the LTC paper
    """

    name: str
    errors: Sequence[float | None]
    parameters: int
    seconds: float | None = None
    published: tuple[float, float] | None = None

    @property
    def found(self) -> list[float]:
        """The errors that there are."""
        return [error for error in self.errors if error is not None]

    @property
    def mean(self) -> float:
        """Of the errors."""
        return float(np.mean(self.found)) if self.found else math.nan

    @property
    def spread(self) -> float:
        """Their standard deviation, with n - 1; NaN of a single one."""
        return float(np.std(self.found, ddof=1)) if len(self.found) > 1 else math.nan


def paired_p(one: Line, other: Line) -> float:
    """How likely a difference like that between two rows is by chance: Student's t over seeds, paired, two-sided.

    NaN with fewer than three pairs.
    """
    pairs = zip(one.errors, other.errors, strict=False)
    gaps = [a - b for a, b in pairs if a is not None and b is not None]
    if len(gaps) < 3 or len(one.errors) != len(other.errors):
        return math.nan
    spread = float(np.std(gaps, ddof=1))
    if spread == 0:
        return 1.0 if np.mean(gaps) == 0 else 0.0
    return student_p(float(np.mean(gaps)) / (spread / len(gaps) ** 0.5), len(gaps) - 1)


def student_p(t: float, freedom: int) -> float:
    """P(|T| > |t|) of Student's distribution.

    With T = sqrt(freedom) tan(angle) the density of the angle is proportional to cos(angle)^(freedom - 1).
    """
    angles = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    edge = math.atan(abs(t) / math.sqrt(freedom))
    return float(1 - np.interp(edge, angles, below) / below[-1])


def cells(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """The table's text, the head first."""
    reference = next((line for line in lines if line.name == REFERENCE), None)
    found: list[tuple[str, ...]] = [HEAD]
    for line in lines:
        p = math.nan if reference is None or line is reference else paired_p(line, reference)
        found.append(
            (
                line.name,
                f"{line.parameters:,}",
                f"{line.mean:.4g}" if line.found else "failed",
                "" if math.isnan(line.spread) else f"{line.spread:.2g}",
                "" if line.seconds is None else f"{len(line.found)} of {len(line.errors)}",
                "" if line.published is None else f"{line.published[0]:.3f} ± {line.published[1]:.3f}",
                "" if math.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}",
                "" if line.seconds is None else f"{line.seconds:.0f}",
            )
        )
    return found


def table_text(lines: Sequence[Line]) -> str:
    """The table for a terminal, without columns that have nothing in them."""
    columns = [column for column in zip(*cells(lines), strict=True) if any(column[1:])]
    rows = list(zip(*columns, strict=True))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def write_tables(lines: Sequence[Line], out: Path, loss: str) -> None:
    """`table.txt`, `table.csv`, and `table.png` where matplotlib is installed."""
    write_atomically(out / "table.txt", (table_text(lines) + "\n").encode())
    seeds = max(len(line.errors) for line in lines)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["model", "parameters", "mean", "spread", "seconds", *(f"seed_{k}" for k in range(seeds))])
    for line in lines:
        numbers: list[Any] = [line.mean, line.spread, line.seconds, *line.errors]
        writer.writerow([line.name, line.parameters, *("" if is_nothing(value) else value for value in numbers)])
    write_atomically(out / "table.csv", file.getvalue().encode())
    try:
        picture = draw_table(lines, loss)
    except ImportError:
        return
    save_figure(picture, out / "table.png", dpi=150)


def is_nothing(value: Any) -> bool:
    """None or NaN."""
    return value is None or math.isnan(value)


def draw_table(lines: Sequence[Line], loss: str) -> Any:
    """Every row's errors as dots, their mean as a bar, the published value as a band; a matplotlib Figure."""
    shown = [line for line in lines if line.found and line.name not in ("persistence", "mean")]
    figure = new_figure(7.5, 0.42 * len(shown) + 1.2)
    axes = figure.subplots()
    for k, line in enumerate(shown):
        if line.published is not None:
            mean, spread = line.published
            label = "published, ± its spread" if not axes.get_legend_handles_labels()[0] else None
            axes.fill_betweenx(
                [k - 0.4, k + 0.4], mean - spread, mean + spread, color="#d0a040", alpha=0.5, label=label
            )
        axes.plot([line.mean, line.mean], [k - 0.3, k + 0.3], color="#204080", linewidth=2)
        axes.plot(line.found, [k] * len(line.found), ".", color="#204080", alpha=0.6)
    axes.set_yticks(range(len(shown)), [line.name for line in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"test error of the next observation ({loss}), dots: seeds, bars: means")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")
    axes.grid(axis="x", alpha=0.3)
    return figure
