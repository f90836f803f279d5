"""Figures of what each neuron does over a whole recording: its tuning, its saliency and its time constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.style import (
    EXCITATORY,
    INHIBITORY,
    INK,
    colour_map,
    layer_edges,
    name_layers,
    name_ticks,
    row_size,
    sentence_figure,
)
from ncp_control.activity.names import correlations, input_labels, observation_labels, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def tuning_figure(activity: Activity) -> Figure:
    """Draws the correlation of each neuron's state with each observation over the recording."""
    names = observation_labels(activity)
    tuning = correlations(activity.neurons, activity.observations.reshape(activity.steps, -1))
    note = "; grey: constant or not known" if np.isnan(tuning).any() else ""
    return heat_map(activity, tuning, names, f"State and observation{note}", "correlation", (-1, 1))


def saliency_figure(activity: Activity) -> Figure:
    """Draws how much each neuron's next state changes with each input: the derivative times the input's
    standard deviation."""
    saliency, names = activity.get("saliency"), input_labels(activity)
    if saliency is None:
        saliency = np.full((activity.wiring.units, activity.wiring.inputs), np.nan)
    finite = saliency[np.isfinite(saliency)]
    most = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return heat_map(activity, saliency, names, "Next state and input", "change for a standard deviation", (0, most))


def heat_map(
    activity: Activity, values: Array, columns: Sequence[str], title: str, label: str, ends: tuple[float, float]
) -> Figure:
    """Draws a row for each neuron and a column for each name, with the layers marked between rows.

    :param activity: a recorded rollout
    :param values: (N, C); NaN is grey
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
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap=shades, vmin=ends[0], vmax=ends[1])
    axes.set_facecolor("#bbbbbb")  # it shows through where a value is NaN
    name_ticks(axes.yaxis, wiring.neuron_names, row)
    name_ticks(axes.xaxis, names, column)
    axes.tick_params(axis="x", rotation=90)
    for edge in layer_edges(wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    name_layers(axes, wiring)
    figure.colorbar(image, ax=axes, label=label, pad=0.02, aspect=30, shrink=min(1.0, 2.5 / tall))
    axes.set_title(title, fontsize=11, loc="left")
    return figure


def time_constants_figure(activity: Activity) -> Figure:
    """Draws every neuron's time constants over the recording with their bounds, and the distribution of all of them."""
    if not activity.time_constants_are_known:
        return sentence_figure("The time constants of this recording are not known.")
    wiring = activity.wiring
    values = np.asarray(activity.time_constants, np.float64)
    values = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    if np.isnan(values).all():
        return sentence_figure("No time constant in this recording is a positive, finite number.")
    figure = new_figure(11, 4.6)
    by_neuron, distribution = figure.subplots(1, 2, sharey=True, width_ratios=(4, 1))
    columns = np.arange(wiring.units)
    known = ~np.isnan(values).all(0)
    least, low, middle, high, most = np.nanpercentile(values[:, known], (0, 5, 50, 95, 100), axis=0)
    x = columns[known]
    by_neuron.vlines(x, least, most, color=EXCITATORY, linewidth=1, label="least to most")
    by_neuron.vlines(x, low, high, color=EXCITATORY, linewidth=3.5, alpha=0.5, label="9 of 10 steps")
    by_neuron.plot(x, middle, "o", color=INHIBITORY, markersize=4, label="median")
    bounds = np.asarray(activity.time_constant_bounds, np.float64)
    drawable = np.isfinite(bounds) & (bounds > 0)
    if drawable.any():
        drawn = np.tile(columns, (2, 1))[drawable]
        by_neuron.plot(drawn, bounds[drawable], "_", color=INK, markersize=7, label="bounds")
    by_neuron.set(yscale="log", ylabel="time constant, in units of elapsed time", xlim=(-0.7, wiring.units - 0.3))
    notes = [] if drawable.all() else [f"bounds not drawn: {undrawable_bounds(bounds)}"]
    unknown = int((~activity.known_time_constants).sum())
    notes += [f"time constants of {unknown} neuron{'s' * (unknown > 1)}: not known"] if unknown else []
    by_neuron.set_title("; ".join(notes), fontsize=8, loc="left", color=GREY, pad=22)
    name_ticks(by_neuron.xaxis, wiring.neuron_names, 8.0 / wiring.units)
    by_neuron.tick_params(axis="x", rotation=90)
    for edge in layer_edges(wiring):
        by_neuron.axvline(edge, color=GREY, linewidth=0.6)
    by_neuron.legend(frameon=False, fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1, 1))
    seen = values[np.isfinite(values)]
    # A little room, without which the bins of a single value would have no width.
    ends = np.log10([seen.min() * 0.999, seen.max() * 1.001])
    distribution.hist(
        seen, bins=np.logspace(ends[0], ends[1], 60), weights=np.full(seen.size, 1 / seen.size),
        orientation="horizontal", color=EXCITATORY, alpha=0.6,
    )  # fmt: skip
    distribution.axhline(np.median(seen), color=INHIBITORY, linewidth=1.2)
    distribution.set_title(f"median {np.median(seen):.3g}", fontsize=8, color=INHIBITORY)
    distribution.set_xlabel("share of all\nneurons and steps")
    distribution.xaxis.set_major_formatter("{x:.0%}")
    for axes in (by_neuron, distribution):
        plain(axes)
        axes.grid(axis="y", alpha=0.3)
    return figure


def undrawable_bounds(bounds: Array) -> str:
    """Says in words what the bounds are that a logarithmic axis cannot show."""
    low, high = bounds
    words = []
    if (low <= 0).any():
        words.append("the least may be 0")
    if np.isinf(high).any():
        words.append("the most has no bound")
    return " and ".join(words) or "some are not known"
