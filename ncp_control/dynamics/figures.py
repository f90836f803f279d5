"""Pictures of a fitted model: its predictions, their errors, its time constants, and the half-cheetah it predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.pages import BLUE, GREY, ORANGE, new_figure, plain
from ncp_control.base.text import shown
from ncp_control.dynamics.confidence import Confidence
from ncp_control.dynamics.open_loop import FreeRun, OpenLoop

Array = NDArray[np.float64]
TRACES = 6
STEPS_DRAWN = (0, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)


def draw_traces(run: FreeRun, warm_up: Array, names: Sequence[str]) -> Any:
    """Draws observed and predicted values over time, for at most six features.

    :param warm_up: the observations that the model read first, (W, n)
    :param names: the names of the features
    """
    columns = np.unique(np.linspace(0, len(names) - 1, min(TRACES, len(names))).round().astype(int))
    figure = new_figure(9, 1.25 * len(columns) + 0.9)
    rows = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
    before, after = np.arange(-len(warm_up), 0), np.arange(len(run.real))
    for axes, k in zip(rows, columns, strict=True):
        axes.plot(
            np.r_[before, after], np.r_[warm_up[:, k], run.real[:, k]], color=GREY, linewidth=2.2, label="observed"
        )
        axes.plot(after, run.free[:, k], color=ORANGE, linewidth=1.2, label="predicted, open loop")
        axes.axvline(0, color="black", linewidth=0.6)
        axes.set_ylabel(shown(names[k]), rotation=0, ha="right", va="center", fontsize=8, parse_math=False)
        plain(axes)
        axes.margins(x=0.01)
    rows[0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    rows[-1].set_xlabel("step; the model reads observations until 0")
    figure.align_ylabels(rows)
    return figure


def draw_horizon(ahead: OpenLoop, title: str = "") -> Any:
    """Draws the error against the horizon, with a band that holds eight of ten starts."""
    figure = new_figure(7, 4.2)
    axes = figure.subplots()
    steps = np.arange(1, ahead.errors.shape[1] + 1)
    low, high = ahead.band
    axes.fill_between(steps, low, high, color=BLUE, alpha=0.2, linewidth=0, label="8 of 10 starts")
    axes.plot(steps, ahead.mean, color=BLUE, label="mean")
    axes.plot(steps, ahead.persistence, color=GREY, linewidth=1, label="predict no change")
    axes.axhline(ahead.level, color="black", linestyle="--", linewidth=1, label="predict the mean")
    axes.set(xlabel="steps ahead, open loop", ylabel="squared error over variance", yscale="log", title=title)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    plain(axes)
    return figure


def draw_confidence(known: Mapping[str, Confidence]) -> Any:
    """Draws the error against the members' disagreement, a point for each start and horizon, coloured by the horizon.

    :param known: for each question, such as "recorded"
    """
    figure = new_figure(4.6 * len(known) + 0.9, 4.4)
    grid = figure.subplots(1, len(known), sharex=True, sharey=True, squeeze=False)[0]
    values = np.concatenate([part.ravel() for one in known.values() for part in (one.disagreement, one.error)])
    ends = np.array([values[values > 0].min(initial=1.0), values.max(initial=1.0)])
    for axes, (name, one) in zip(grid, known.items(), strict=True):
        steps = np.unique(np.geomspace(1, one.error.shape[1], 12).round().astype(int))
        x, y = one.disagreement[:, steps - 1], one.error[:, steps - 1]
        points = axes.scatter(
            x, y, c=np.broadcast_to(steps, x.shape), s=5, alpha=0.6, linewidths=0, cmap="viridis",
            norm="log", vmin=1, vmax=max(2, steps[-1]),
        )  # fmt: skip
        axes.plot(ends, ends, color="black", linestyle="--", linewidth=1, label="equal")
        axes.set(xscale="log", yscale="log", title=name, xlabel="disagreement of the members")
        plain(axes)
    grid[0].set_ylabel("error of their mean")
    grid[0].legend(frameon=False)
    figure.colorbar(points, ax=list(grid), label="steps ahead")
    figure.suptitle("roots of mean squares, over the standard deviations of the observations", fontsize=9)
    return figure


def draw_errors(errors: Array, names: Sequence[str], title: str = "") -> Any:
    """Draws the one-step error of every feature, divided by its variance.

    :param errors: (n,)
    :param names: the names of the features
    """
    figure = new_figure(7, 0.28 * len(names) + 1.2)
    axes = figure.subplots()
    axes.barh(range(len(names)), errors, color=BLUE)
    axes.set_yticks(range(len(names)), list(map(shown, names)), fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set(xlabel="squared error of the next observation over its variance", title=title)
    plain(axes)
    return figure


def draw_time_constants(constants: dict[str, Array]) -> Any:
    """Draws every neuron's time constant, sorted: its bounds, its range over a rollout, and its median."""
    figure = new_figure(7, 4)
    axes = figure.subplots()
    order = np.argsort(constants["median"])
    neurons = np.arange(len(order))
    low, high = constants["low"][order], constants["high"][order]
    if np.isfinite(high).all() and (low > 0).all():
        axes.fill_between(neurons, low, high, step="mid", color=GREY, alpha=0.2, linewidth=0, label="bounds")
    axes.vlines(neurons, constants["least"][order], constants["most"][order], color=BLUE, label="range")
    axes.plot(neurons, constants["median"][order], "o", color=ORANGE, markersize=4, label="median")
    axes.set(xlabel="neurons, fastest first", ylabel="time constant, in steps", yscale="log")
    axes.legend(frameon=False)
    plain(axes)
    return figure


def draw_cheetahs(run: FreeRun) -> Any:
    """Draws the half-cheetah as it moved and as the model predicted it, at a few steps."""
    from ncp_envs.body import half_cheetah_capsules

    steps = [k for k in STEPS_DRAWN if k < len(run.real)]
    columns = 4
    rows = -(-len(steps) // columns)
    figure = new_figure(3 * columns, 1.7 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, step in zip(grid.flat, steps, strict=False):
        for values, color in ((run.real, GREY), (run.free, ORANGE)):
            body = half_cheetah_capsules(values[[step]], x=[0.0])
            draw_body(axes, body.ends[0], body.radii, color)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set(xlim=(-1.2, 1.2), ylim=(-0.15, 1.35), aspect="equal", title=f"step {step + 1}")
    figure.suptitle("observed (grey) and predicted, open loop (orange)", fontsize=11)
    return figure


def draw_body(axes: Any, ends: Array, radii: Array, color: str) -> None:
    """Draws capsules as thick lines with round ends, in metres.

    :param ends: the two ends of each capsule, (G, 2, 2)
    :param radii: (G,)
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle, Polygon

    patches: list[Any] = []
    for (one, other), radius in zip(ends, radii, strict=True):
        along = (other - one) / max(float(np.linalg.norm(other - one)), 1e-9)
        side = radius * np.array([-along[1], along[0]])
        patches += [Circle(tuple(one), radius), Circle(tuple(other), radius)]
        patches.append(Polygon([one + side, other + side, other - side, one - side]))
    axes.add_collection(PatchCollection(patches, facecolor=color, edgecolor="none", alpha=0.45))
