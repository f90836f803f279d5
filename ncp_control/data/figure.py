"""A figure of rollouts: their returns, the ranges of their observations, and the first rollout step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.pages import BLUE, GREY, ORANGE, new_figure, plain, save_figure
from ncp_control.base.text import shown
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts

SUFFIXES = (".png", ".svg", ".pdf")
TRACES, STEPS = 4, 200  # observations and steps of the first rollout that are drawn


def check_suffix(path: Path) -> None:
    """Refuses a file whose suffix is not that of a supported format, or whose folder does not exist."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"a figure is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")


def draw(rollouts: Rollouts, path: Path) -> None:
    """Draws rollouts into a file.

    :param rollouts: rollouts with or without actions and rewards
    :param path: a file name that ends in .png, .svg or .pdf
    """
    check_suffix(path)
    height = max(6.0, 3.6 + 0.26 * rollouts.features)
    figure = new_figure(11, height)
    parts: Any = figure.subfigures(2, 1, height_ratios=(height - 3.4, 3.4))
    above, below = parts
    has_returns = rollouts[0].rewards is not None
    axes = above.subplots(1, 2 if has_returns else 1, squeeze=False)[0]
    if has_returns:
        draw_returns(axes[0], rollouts)
    draw_ranges(axes[-1], rollouts)
    draw_rollout(below, rollouts[0], rollouts.observation_names)
    save_figure(figure, path, dpi=120)


def draw_returns(axes: Any, rollouts: Rollouts) -> None:
    """Draws the return of every rollout, and the mean of all returns."""
    returns = [rollout.total_reward for rollout in rollouts]
    axes.plot(range(len(returns)), returns, "o", color=BLUE, markersize=5)
    mean = float(np.mean(returns))
    axes.axhline(mean, color=GREY, linestyle="--", linewidth=1, label=f"mean {mean:,.1f}")
    axes.set(title="Return of each rollout", xlabel="rollout", ylabel="sum of its rewards")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, loc="best")
    plain(axes)


def draw_ranges(axes: Any, rollouts: Rollouts) -> None:
    """Draws each observation's range, its mean, and one standard deviation to both sides of the mean."""
    values = np.concatenate([rollout.observations for rollout in rollouts]).astype(np.float64)
    rows = np.arange(rollouts.features)
    mean, std = values.mean(0), values.std(0)
    axes.hlines(rows, values.min(0), values.max(0), color=GREY, linewidth=1.2, label="least to most")
    axes.hlines(rows, mean - std, mean + std, color=BLUE, linewidth=5, label="mean +- standard deviation")
    axes.plot(mean, rows, "|", color="white", markersize=7)
    # on a linear axis, observations that spread much less than others would be dots
    if std.max() > 10 * max(float(np.median(std)), 1e-12) or std.max() > 20 * max(float(std.min()), 1e-12):
        axes.set_xscale("symlog", linthresh=1.0)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("value (logarithmic beyond +-1)")
    else:
        axes.set_xlabel("value")
    axes.set_yticks(rows, list(map(shown, rollouts.observation_names)), fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_title("Observations")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.6 / len(rows)), ncols=2)
    plain(axes)


def draw_rollout(figure: Any, rollout: Rollout, names: tuple[str, ...]) -> None:
    """Draws a few observations of one rollout, step by step, and marks its random actions."""
    columns = np.unique(np.linspace(0, len(names) - 1, min(TRACES, len(names))).round().astype(int))
    rows = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
    values = rollout.observations[: STEPS + 1]
    flags = np.zeros(0, dtype=bool) if rollout.is_random is None else rollout.is_random[: len(values) - 1]
    random = np.flatnonzero(flags)
    for axes, column in zip(rows, columns, strict=True):
        for k, step in enumerate(random):
            axes.axvspan(step, step + 1, color=ORANGE, alpha=0.35, linewidth=0, label="random action" if k == 0 else "")
        axes.plot(values[:, column], color=BLUE, linewidth=1.2)
        axes.set_ylabel(shown(names[column]), rotation=0, ha="right", va="center", fontsize=8, parse_math=False)
        axes.margins(x=0.01)
        plain(axes)
    figure.align_ylabels(rows)
    rows[-1].set_xlabel("step")
    marked = ", random actions in orange" if len(random) else ""
    figure.suptitle(f"The first {len(values) - 1} steps of rollout 0{marked}", fontsize=12)
