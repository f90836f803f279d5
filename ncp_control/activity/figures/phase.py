"""The neurons' mean states by the phase of the gait as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncp_control.activity.figures.gait import PHASES, by_phase, find_gait, peak_order
from ncp_control.activity.figures.labels import layer_edges, name_layers, name_ticks, row_size, sentence_figure
from ncp_control.activity.figures.shades import INK, colour_map, limits
from ncp_control.activity.names import observation_labels, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def phase_figure(activity: Activity) -> Figure:
    """Draws the mean state of every neuron by the phase of the gait; each layer is sorted by when its neurons peak.

    The phase is that of the observation with the strongest rhythm. If no rhythm is clear, the figure says so.
    """
    gait = find_gait(activity)
    names = observation_labels(activity)
    if gait is None or gait.share < gait.needed:
        best = "" if gait is None else (
            f" The strongest rhythm, in {shortened(names[gait.observation])}, has {gait.share:.0%} of its power; "
            f"a gait would have {gait.needed:.0%} or more."
        )  # fmt: skip
        return sentence_figure(f"This recording shows no clear gait.{best}")
    wiring = activity.wiring
    observed = by_phase(activity.observations[:, [gait.observation]], gait.phase)[:, 0]
    states = by_phase(activity.neurons, gait.phase)
    order = np.concatenate(
        [np.arange(wiring.units)[where][peak_order(states[:, where])] for where in wiring.layers.values()]
    )
    row = row_size(wiring.units, 8, 0.14)
    tall = max(row * wiring.units, 0.6)
    figure = new_figure(7.5, tall + 2.6)
    above, axes = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, tall))
    # Two cycles are drawn, because one would cut a wave that crosses phase 0.
    centres = (np.arange(2 * PHASES) + 0.5) * 360 / PHASES
    above.plot(centres, np.tile(observed, 2), color=INK)
    rhythm = f"{gait.share:.0%} of its power at {frequency_text(activity, gait.frequency)}"
    above.set_title(
        f"mean of {shortened(names[gait.observation])}: {rhythm}", fontsize=9, loc="left", parse_math=False,
    )  # fmt: skip
    plain(above)
    limit = limits(activity).state
    image = axes.imshow(
        np.tile(states[:, order].T, 2), aspect="auto", interpolation="nearest", cmap=colour_map(), vmin=-limit,
        vmax=limit, extent=(0, 720, wiring.units - 0.5, -0.5),
    )  # fmt: skip
    name_ticks(axes.yaxis, [wiring.neuron_names[k] for k in order], row)
    for edge in layer_edges(wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    name_layers(axes, wiring)
    axes.set_xticks(range(0, 721, 90))
    axes.set_xlabel("phase of the gait, degrees; 0 where the observation peaks")
    figure.colorbar(image, ax=axes, label="mean state", pad=0.02, aspect=30, shrink=min(1.0, 2.5 / tall))
    return figure


def frequency_text(activity: Activity, frequency: float) -> str:
    """Says a frequency, in cycles a step, in words."""
    dt = activity.seconds_per_step
    return f"{1 / frequency:.1f} steps a cycle" if dt is None else f"{frequency / dt:.2f} cycles a second"
