"""Figures with a number for each neuron and each observation or input: tuning and saliency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.correlations import correlations
from ncp_control.activity.figures.labels import layer_edges, name_layers, name_ticks, row_size
from ncp_control.activity.figures.shades import INK, colour_map
from ncp_control.activity.names import input_labels, observation_labels, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def tuning_figure(activity: Activity) -> Figure:
    """Draws the correlation of each neuron's state with each observation over the recording."""
    names = observation_labels(activity)
    found = correlations(activity.neurons, activity.observations.reshape(activity.steps, -1))
    note = "; grey: constant or not known" if np.isnan(found).any() else ""
    return heat_map(activity, found, names, f"State and observation{note}", "correlation", (-1, 1))


def saliency_figure(activity: Activity) -> Figure:
    """Draws how much each neuron's next state changes with each input: the derivative times the input's
    standard deviation."""
    found, names = activity.get("saliency"), input_labels(activity)
    if found is None:
        found = np.full((activity.wiring.units, activity.wiring.inputs), np.nan)
    finite = found[np.isfinite(found)]
    most = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return heat_map(activity, found, names, "Next state and input", "change for a standard deviation", (0, most))


def heat_map(
    activity: Activity, found: Array, columns: Sequence[str], title: str, label: str, ends: tuple[float, float]
) -> Figure:
    """Draws a row for each neuron and a column for each name, with the layers marked between rows.

    :param activity: a recorded rollout
    :param found: (N, C); NaN is grey
    :param columns: C names
    :param title: of the figure
    :param label: of the colour scale
    :param ends: of the colour scale
    """
    wiring, names = activity.wiring, [shortened(name) for name in columns]
    row, column = row_size(wiring.units, 9, 0.16), row_size(len(names), 8, 0.3)
    tall, wide = max(row * wiring.units, 0.6), max(column * len(names), 2.0)
    figure = new_figure(wide + 2.9, tall + 2.2)
    axes = figure.subplots()
    shades = colour_map() if ends[0] < 0 else "cividis"
    image = axes.imshow(found, aspect="auto", interpolation="nearest", cmap=shades, vmin=ends[0], vmax=ends[1])
    axes.set_facecolor("#bbbbbb")
    name_ticks(axes.yaxis, wiring.neuron_names, row)
    name_ticks(axes.xaxis, names, column)
    axes.tick_params(axis="x", rotation=90)
    for edge in layer_edges(wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    name_layers(axes, wiring)
    figure.colorbar(image, ax=axes, label=label, pad=0.02, aspect=30, shrink=min(1.0, 2.5 / tall))
    axes.set_title(title, fontsize=11, loc="left")
    return figure
