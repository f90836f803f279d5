"""What the time between measurements is worth: a table of oscillations that are measured at irregular times.

Each of the groups is the sum of two damped oscillations with phases and amplitudes of its own, measured after random
intervals, with noise, and with a share of cells missing. The next row cannot be told well without knowing when it is
measured. The same model is fitted to the table with its column of times, and to the table without that column, which is
then read as if its rows were equally far apart.

    python scripts/irregular_series.py --figure irregular.png
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncp_control.base.pages import BLUE, GREY, ORANGE, new_figure, plain, save_figure
from ncp_control.dynamics import FitSettings
from ncp_control.series import SeriesModel, fit_series, read_series, score, split_series

GROUPS, ROWS, MISSING, NOISE = 40, 60, 0.1, 0.02
FREQUENCIES, DAMPING = np.array([1.0, 2.3]), np.array([0.03, 0.05])
SHORTEST, LONGEST = 0.1, 1.6  # the intervals are drawn between them, evenly on a logarithmic scale


def write_table(path: Path, seed: int) -> None:
    """Writes the table: a group, a time and two positions in each row, some of them missing."""
    random = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "time", "left", "right"])
        for group in range(GROUPS):
            intervals = np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), ROWS))
            times = np.cumsum(intervals)
            size, phase = random.uniform(0.5, 1.5, 2), random.uniform(0, 2 * np.pi, 2)
            waves = size * np.exp(-DAMPING * times[:, None]) * np.cos(FREQUENCIES * times[:, None] + phase)
            values = np.stack([waves.sum(axis=1), waves[:, 0] - waves[:, 1]], axis=1)
            values += NOISE * random.standard_normal(values.shape)
            lost = random.random(values.shape) < MISSING
            for time, row, gaps in zip(times, values, lost, strict=True):
                cells = ["" if gap else f"{value:.5f}" for value, gap in zip(row, gaps, strict=True)]
                writer.writerow([group, f"{time:.4f}", *cells])


def fit_once(source: str, arguments: argparse.Namespace, seed: int) -> tuple[Any, Any, Any]:
    """Fits one model, and returns it with its test part and its scores."""
    parts = split_series(read_series(source))
    torch.manual_seed(seed)
    model = SeriesModel.of(parts.train, arguments.cell, arguments.units)
    settings = FitSettings(epochs=arguments.epochs, batch=8, length=ROWS, schedule="cosine")
    fit_series(model, parts, settings, seed=seed, progress=False, device="cpu")
    return model, parts.test, score(model, parts.test)


def draw(path: Path, told: dict[str, tuple[Any, Any, Any]]) -> None:
    """Draws what both models tell of the same test series, over what is true."""
    figure = new_figure(7.5, 3.2)
    axes = figure.subplots()
    timed = told["time=time"][1].series[0]
    times = np.cumsum(timed.elapsed)
    axes.plot(times, timed.targets[:, 0], "o", color=GREY, markersize=4, label="measured")
    for (name, (model, test, _)), colour in zip(told.items(), (BLUE, ORANGE), strict=True):
        label = "told, knowing the times" if name else "told, without the times"
        axes.plot(times, model.predict(test.series[0])[:, 0], color=colour, linewidth=1.4, label=label)
    axes.set(xlabel="time", ylabel="left", title="the next row of a test series")
    axes.legend(frameon=False, ncols=3)
    plain(axes)
    save_figure(figure, path, dpi=130)


def main() -> None:
    """Makes the table, fits the models and prints what they are worth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", default="cfc", help="the cell of the models [cfc]")
    parser.add_argument("--units", type=int, default=32, help="number of neurons [32]")
    parser.add_argument("--epochs", type=int, default=60, help="number of epochs of every fit [60]")
    parser.add_argument("--seeds", type=int, default=3, help="number of fits of each model [3]")
    parser.add_argument("--table", type=Path, help="keep the table in this .csv file")
    parser.add_argument("--figure", type=Path, help="draw what the models of the first seed tell into this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.table or Path(folder) / "oscillations.csv"
        write_table(path, seed=0)
        first, rows = {}, []
        for times in ("time=time", ""):
            source = f"{path}:{times + ',' if times else ''}group=group,predict=left+right"
            fits = [fit_once(source, arguments, seed) for seed in range(arguments.seeds)]
            first[times] = fits[0]
            rows.append((times, fits))
    if arguments.figure:
        draw(arguments.figure, first)
    print(
        f"{GROUPS} groups of {ROWS} rows, {MISSING:.0%} of the cells missing; {arguments.cell}, {arguments.seeds} seeds"
    )
    print(f"{'normalised error of the next row':34}  {'mean':>6}  {'least':>6}  {'most':>6}")
    for times, fits in rows:
        errors = [scores.normalised for _, _, scores in fits]
        name = "with the column of times" if times else "without it"
        print(f"{name:34}  {np.mean(errors):6.3f}  {min(errors):6.3f}  {max(errors):6.3f}")
    scores = rows[0][1][0][2]
    print(f"{'predicting the last known value':34}  {scores.normalised_last:6.3f}")
    print(f"{'predicting the mean':34}  {1:6.3f}")


if __name__ == "__main__":
    main()
