"""The states of a few neurons over time as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ncp_control.activity.figures.labels import add_seconds
from ncp_control.activity.figures.raster import draw_starts
from ncp_control.activity.figures.shades import EXCITATORY
from ncp_control.activity.figures.steps import last_step, liveliest
from ncp_control.activity.names import shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACES, TRACE_STEPS = 8, 200


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
    shown = liveliest(activity, TRACES) if neurons is None else [wiring.neuron(one) for one in neurons]
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
