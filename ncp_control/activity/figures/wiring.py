"""The circuit as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.activity.figures.circuit import (
    current_limit,
    current_strengths,
    draw_labels,
    draw_nodes,
    draw_synapses,
    legend_handles,
    place_legend,
    set_up,
)
from ncp_control.activity.figures.labels import LARGEST
from ncp_control.activity.figures.shades import draw_scale
from ncp_control.activity.layout import natural_size, place
from ncp_control.activity.names import input_labels
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def wiring_figure(activity: Activity, step: int | None = None) -> Figure:
    """Draws the circuit, its synapses coloured by polarity.

    If a step is given, nodes show their states and synapses their currents at that step.

    :param activity: a recorded rollout
    :param step: a recorded step; the first is 0
    """
    wiring = activity.wiring
    if step is not None and not 0 <= step < activity.steps:
        raise ValueError(f"step {step} was not recorded: there are {activity.steps}, numbered from 0")
    names = input_labels(activity)
    wide, tall = (min(inches, LARGEST) for inches in natural_size(wiring, names))
    margin, below = 0.25, 0.62
    figure = new_figure(wide + 2 * margin, tall + below + 0.15, layout="none")
    width, height = figure.get_size_inches()
    axes = figure.add_axes((margin / width, below / height, wide / width, tall / height))
    layout = place(wiring, wide, tall, names)
    set_up(axes, layout)
    strength = None
    if step is not None and activity.currents_are_known:
        strength = current_strengths(activity, step, current_limit(activity))
    draw_synapses(axes, wiring, layout, strength)
    states = None if step is None else activity.neurons[step]
    draw_nodes(axes, activity, layout, states, None if step is None else activity.inputs[step])
    draw_labels(axes, layout)
    place_legend(figure, legend_handles(activity, step is not None), (margin / width, 0.12 / height))
    if step is not None:
        bar = figure.add_axes(((width - margin - 2.0) / width, 0.38 / height, 2.0 / width, 0.11 / height))
        draw_scale(figure, bar, activity)
        dt = activity.seconds_per_step
        time = "" if dt is None else f", {step * dt:.2f} s"
        bar.set_title(f"at step {step}{time}", fontsize=8, loc="left", pad=3)
    return figure
