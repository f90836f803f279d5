"""The neurons' states over time as figures: a raster of all of them, and traces of a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ncp_control.activity.figures.style import (
    EXCITATORY,
    INK,
    add_seconds,
    colour_map,
    figure_title,
    layer_edges,
    limits,
    name_layers,
    name_ticks,
    row_size,
)
from ncp_control.activity.names import shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS, MOST_STARTS = 2000, 1000
TRACES, TRACE_STEPS = 8, 200


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
    # So many lines touch each other already: if there are more, nobody sees that some are left out.
    steps = steps[:: -(-len(steps) // MOST_STARTS) or 1]
    return [
        axes.axvline(step - 0.5, color=INK, linestyle="--", linewidth=1, label="an episode starts") for step in steps
    ]


def traces_figure(
    activity: Activity, neurons: Sequence[int | str] | None = None, start: int = 0, steps: int = TRACE_STEPS
) -> Figure:
    """Draws the states of a few neurons over time, one below the other.

    :param activity: a recorded rollout
    :param neurons: numbers or names; by default those of every layer that vary most
    :param start: the first step shown
    :param steps: how many steps are shown
    """
    wiring, stop = activity.wiring, last_step(activity, start, steps)
    shown = liveliest(activity, TRACES) if neurons is None else [wiring.neuron(name) for name in neurons]
    if not shown:
        raise ValueError("name at least one neuron to draw")
    figure = new_figure(10, 0.85 * len(shown) + 1.0)
    rows = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, neuron in zip(rows, shown, strict=True):
        axes.plot(np.arange(start, stop), activity.neurons[start:stop, neuron], color=EXCITATORY, linewidth=1.3)
        for bound in activity.state_bounds[:, neuron]:
            low, high = axes.get_ylim()
            # A bound that is far away would flatten the trace.
            if np.isfinite(bound) and low - (high - low) <= bound <= high + (high - low):
                axes.axhline(bound, color=GREY, linestyle=":", linewidth=1)
        draw_starts(axes, activity, start, stop)
        axes.set_ylabel(
            shortened(wiring.neuron_names[neuron]), rotation=0, ha="right", va="center", fontsize=8, parse_math=False
        )
        axes.tick_params(labelsize=7)
        plain(axes)
        axes.margins(x=0.005)
    rows[-1].set_xlabel(f"step{', bounds dotted' if np.isfinite(activity.state_bounds[:, shown]).any() else ''}")
    add_seconds(rows[0], activity)
    figure.align_ylabels(rows)
    figure.suptitle(f"States of {len(shown)} of {wiring.units} neurons", fontsize=11)
    return figure


def last_step(activity: Activity, start: int, steps: int | None) -> int:
    """Returns the step after the last one shown, and refuses a range without a step.

    :param activity: a recorded rollout
    :param start: the first step shown
    :param steps: how many steps are shown; all that follow if None
    """
    if steps is not None and steps < 1:
        raise ValueError(f"show at least 1 step, not {steps}")
    if not 0 <= start < activity.steps:
        raise ValueError(f"step {start} was not recorded: start at a step from 0 to {activity.steps - 1}")
    return activity.steps if steps is None else min(start + steps, activity.steps)


def liveliest(activity: Activity, count: int) -> list[int]:
    """Returns the neurons whose states vary most, taking the next of each layer in turn; they are sorted by number."""
    spread = np.nan_to_num(np.asarray(activity.neurons, np.float64)).std(0)
    ranked = [
        list(where.start + np.argsort(-spread[where], kind="stable")) for where in activity.wiring.layers.values()
    ]
    taken = [layer[k] for k in range(max(map(len, ranked))) for layer in ranked if k < len(layer)]
    return sorted(int(neuron) for neuron in taken[:count])
