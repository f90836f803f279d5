"""The table of a comparison: as text, as a CSV file and as a picture."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import write_atomically
from ncp_control.base.pages import new_figure, save_figure
from ncp_control.base.text import csv_cell

REFERENCE = "LTC"
# After which actions, how far ahead.
OPEN_LOOP = (("recorded", 10), ("recorded", 50), ("off-policy", 5), ("off-policy", 10))
AHEAD = tuple(f"{after} {steps}" for after, steps in OPEN_LOOP)
HEAD = ("model", "parameters", "error", "spread", "fits", "published", "p", "seconds", *AHEAD)


@dataclass(frozen=True)
class RowResult:
    """The results of a row of the comparison.

    :param name: the row's name
    :param errors: test errors, one for each seed; None for a fit that failed
    :param parameters: how many numbers were fitted
    :param seconds: the mean duration of a fit; None if nothing was fitted
    :param published: mean and standard deviation in the LTC paper
    :param open_loop: mean errors over variances, by names such as "recorded 10", of what the models predict so many
        steps ahead open loop; those that are known
    :param rollouts: for each seed the names of the test rollouts with their errors; nothing where that is not known
    :param trouble: why the first fit failed; empty if none did
    """

    name: str
    errors: Sequence[float | None]
    parameters: int
    seconds: float | None = None
    published: tuple[float, float] | None = None
    open_loop: Mapping[str, float] = field(default_factory=dict)
    rollouts: Sequence[Sequence[tuple[str, float | None]]] = ()
    trouble: str = ""

    @property
    def found(self) -> list[float]:
        """The errors of the fits that did not fail."""
        return [error for error in self.errors if error is not None]

    @property
    def mean(self) -> float:
        """The mean error, or NaN if every fit failed."""
        return float(np.mean(self.found)) if self.found else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation of the errors, computed with n - 1; NaN for fewer than two."""
        return float(np.std(self.found, ddof=1)) if len(self.found) > 1 else math.nan


def paired_p(one: RowResult, other: RowResult) -> float:
    """Returns how probable a difference like that between two rows is by chance, by the paired, two-sided t-test.

    Errors from the same seed are a pair. The result is NaN for fewer than three pairs.
    """
    if len(one.errors) != len(other.errors):
        return math.nan
    pairs = [(a, b) for a, b in zip(one.errors, other.errors, strict=True) if a is not None and b is not None]
    if len(pairs) < 3:
        return math.nan
    gaps = np.array([a - b for a, b in pairs])
    if np.ptp(gaps) == 0:  # the test divides by the standard deviation of the gaps
        return 1.0 if gaps[0] == 0 else 0.0
    from scipy.stats import ttest_rel

    return float(ttest_rel(*zip(*pairs, strict=True)).pvalue)


def cells(results: Sequence[RowResult]) -> list[tuple[str, ...]]:
    """Returns the text of every cell of the table, the head first."""
    reference = next((result for result in results if result.name == REFERENCE), None)
    rows: list[tuple[str, ...]] = [HEAD]
    for result in results:
        p = math.nan if reference is None or result is reference else paired_p(result, reference)
        rows.append(
            (
                result.name,
                f"{result.parameters:,}",
                f"{result.mean:.4g}" if result.found else "failed",
                "" if math.isnan(result.spread) else f"{result.spread:.2g}",
                "" if result.seconds is None else f"{len(result.found)} of {len(result.errors)}",
                "" if result.published is None else f"{result.published[0]:.3f} ± {result.published[1]:.3f}",
                "" if math.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}",
                "" if result.seconds is None else f"{result.seconds:.0f}",
                *(f"{result.open_loop[name]:.3g}" if name in result.open_loop else "" for name in AHEAD),
            )
        )
    return rows


def table_text(results: Sequence[RowResult]) -> str:
    """Returns the table for a terminal, without columns that are empty."""
    columns = [column for column in zip(*cells(results), strict=True) if any(column[1:])]
    rows = list(zip(*columns, strict=True))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def write_tables(results: Sequence[RowResult], out: Path, loss: str) -> None:
    """Writes `table.txt`, `table.csv`, `rollouts.csv` and, if matplotlib is installed, `table.png`.

    :param out: the folder
    :param loss: "raw" or "normalised", for the picture's label
    """
    write_atomically(out / "table.txt", (table_text(results) + "\n").encode())
    seeds = max(len(result.errors) for result in results)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = ["model", "parameters", "mean", "spread", "seconds", *(re.sub("[ -]", "_", name) for name in AHEAD)]
    writer.writerow([*heads, *(f"seed_{k}" for k in range(seeds))])
    for result in results:
        ahead = [result.open_loop.get(name) for name in AHEAD]
        numbers: list[Any] = [result.mean, result.spread, result.seconds, *ahead, *result.errors]
        known = ("" if is_missing(value) else value for value in numbers)
        writer.writerow([csv_cell(result.name), result.parameters, *known])
    write_atomically(out / "table.csv", file.getvalue().encode())
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["model", "seed", "rollout", "error"])
    for result in results:
        for seed, each in enumerate(result.rollouts):
            writer.writerows([csv_cell(result.name), seed, csv_cell(name), error] for name, error in each)
    write_atomically(out / "rollouts.csv", file.getvalue().encode())
    try:
        picture = draw_table(results, loss)
    except ImportError:
        return
    save_figure(picture, out / "table.png", dpi=150)


def is_missing(value: float | None) -> bool:
    """Whether a number is None or NaN."""
    return value is None or math.isnan(value)


def draw_table(results: Sequence[RowResult], loss: str) -> Any:
    """Returns a matplotlib Figure: errors as dots, their means as bars, published values as bands.

    :param loss: "raw" or "normalised", for the label
    """
    shown = [result for result in results if result.found and result.name not in ("persistence", "mean")]
    figure = new_figure(7.5, 0.42 * len(shown) + 1.2)
    axes = figure.subplots()
    for k, result in enumerate(shown):
        if result.published is not None:
            mean, spread = result.published
            label = "published, ± its spread" if not axes.get_legend_handles_labels()[0] else None
            axes.fill_betweenx(
                [k - 0.4, k + 0.4], mean - spread, mean + spread, color="#d0a040", alpha=0.5, label=label
            )
        axes.plot([result.mean, result.mean], [k - 0.3, k + 0.3], color="#204080", linewidth=2)
        axes.plot(result.found, [k] * len(result.found), ".", color="#204080", alpha=0.6)
    axes.set_yticks(range(len(shown)), [result.name for result in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"test error of the next observation ({loss}); dots are seeds, bars are means")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")
    axes.grid(axis="x", alpha=0.3)
    return figure
