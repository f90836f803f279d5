"""The figure of a sweep: the learning curve of every setting, with its spread over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, new_figure, plain, save_figure
from ncp_control.runs.curve import read_curve
from ncp_control.scale.plan import PlannedRun, Setting
from ncp_control.scale.table import LOWER_IS_BETTER

COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)
MOST = 2 * len(COLOURS)  # curves in one figure
# The columns of the curve of each command: what goes to the right, and what goes up.
AXES = {"train": ("steps", "mean_return"), "distil": ("steps", "mean_return"), "fit": ("epoch", "valid")}


class Band(NamedTuple):
    """A setting's mean over its seeds where all of them have a point, and the standard deviation with n - 1."""

    x: np.ndarray
    mean: np.ndarray
    spread: np.ndarray


def band_of(kind: str, setting: Setting, seeds: Sequence[int], out: Path) -> Band | None:
    """Reads the curves of a setting's runs; None if there is none yet."""
    across, up = AXES[kind]
    curves = []
    for seed in seeds:
        rows = read_curve(out / PlannedRun(setting, seed).folder)
        if rows and across in rows[0] and up in rows[0]:
            curves.append({row[across]: row[up] for row in rows})
    if not curves:
        return None
    x = sorted(set.intersection(*map(set, curves)))
    values = np.array([[curve[at] for at in x] for curve in curves]).reshape(len(curves), len(x))
    spread = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(x))
    return Band(np.array(x), values.mean(axis=0), spread)


def draw_curves(kind: str, settings: Sequence[Setting], seeds: Sequence[int], out: Path, path: Path) -> bool:
    """Draws the curves of a sweep, if there are any and matplotlib is installed; returns whether it did."""
    try:
        figure = new_figure(7.0, 4.2)
    except ModuleNotFoundError:
        return False
    bands = [(setting, band_of(kind, setting, seeds, out)) for setting in settings]
    drawn = [(setting, band) for setting, band in bands if band is not None and len(band.x)][:MOST]
    if not drawn:
        return False
    axes = figure.subplots()
    for k, (setting, band) in enumerate(drawn):
        colour, style = COLOURS[k % len(COLOURS)], "-" if k < len(COLOURS) else "--"
        axes.plot(band.x, band.mean, style, color=colour, label=setting.label, linewidth=1.5)
        axes.fill_between(
            band.x, band.mean - band.spread, band.mean + band.spread, color=colour, alpha=0.18, linewidth=0
        )
    if kind in LOWER_IS_BETTER:
        axes.set_yscale("log")
    axes.set_xlabel(AXES[kind][0])
    axes.set_ylabel({"fit": "validation error"}.get(kind, "mean return of an evaluation"))
    seeds_told = f"{len(seeds)} seeds, mean and standard deviation" if len(seeds) > 1 else f"seed {seeds[0]}"
    axes.set_title(seeds_told, fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False)
    plain(axes)
    save_figure(figure, path, dpi=150)
    return True
