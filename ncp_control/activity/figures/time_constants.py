"""The time constants as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.labels import layer_edges, name_ticks, sentence_figure
from ncp_control.activity.figures.shades import EXCITATORY, INHIBITORY, INK
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


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
