"""Every neuron's state over time as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncp_control.activity.figures.labels import (
    add_seconds,
    figure_title,
    layer_edges,
    name_layers,
    name_ticks,
    row_size,
)
from ncp_control.activity.figures.shades import INK, colour_map, limits
from ncp_control.activity.figures.steps import last_step
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS, MOST_STARTS = 2000, 1000


def raster_figure(activity: Activity, start: int = 0, steps: int | None = None) -> Figure:
    """Draws every neuron's state over time, layer by layer, and marks where episodes start.

    :param activity: a recorded rollout
    :param start: the first step shown
    :param steps: how many steps are shown; all by default
    """
    wiring = activity.wiring
    stop = last_step(activity, start, steps)
    row = row_size(wiring.units, 9, 0.14)
    figure = new_figure(11, max(row * wiring.units, 0.6) + 1.5)
    axes = figure.subplots()
    image = draw_raster(axes, activity, start, stop)
    starts = draw_starts(axes, activity, start, stop)
    name_ticks(axes.yaxis, wiring.neuron_names, row)
    name_layers(axes, wiring)
    axes.set_xlabel("step")
    add_seconds(axes, activity)
    figure.colorbar(image, ax=axes, label="state", pad=0.02, aspect=30, shrink=min(1.0, 2.5 / (row * wiring.units)))
    if starts:
        axes.legend(handles=starts[:1], frameon=False, loc="lower right", bbox_to_anchor=(1, 1.0), fontsize=8)
    axes.set_title(figure_title(activity), loc="left", fontsize=11, parse_math=False)
    return figure


def draw_raster(axes: Any, activity: Activity, start: int, stop: int) -> Any:
    """Draws the states of the steps from `start` to before `stop` as an image with a row for each neuron."""
    limit = limits(activity).state
    # If there are more steps than a picture has columns, each column is the mean of a few steps.
    every = -(-(stop - start) // MOST_COLUMNS)
    states = np.stack([activity.neurons[k : min(k + every, stop)].mean(0) for k in range(start, stop, every)])
    image = axes.imshow(
        states.T, aspect="auto", interpolation="nearest", cmap=colour_map(), vmin=-limit, vmax=limit,
        extent=(start - 0.5, start - 0.5 + every * len(states), activity.wiring.units - 0.5, -0.5),
    )  # fmt: skip
    axes.set_xlim(start - 0.5, stop - 0.5)
    for edge in layer_edges(activity.wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    return image


def draw_starts(axes: Any, activity: Activity, start: int, stop: int) -> list[Any]:
    """Draws a line where an episode starts after step `start` and before `stop`, and returns the lines."""
    steps = np.flatnonzero(activity.episode_starts[start + 1 : stop]) + start + 1
    # As many lines already touch each other, so it makes no difference to leave out some of more lines.
    steps = steps[:: -(-len(steps) // MOST_STARTS) or 1]
    return [
        axes.axvline(step - 0.5, color=INK, linestyle="--", linewidth=1, label="an episode starts") for step in steps
    ]
