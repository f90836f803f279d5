"""Colours of pictures of a circuit: of synapses by their polarity, and of states by their value."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import BLUE, ORANGE

Array = NDArray[np.float64]
EXCITATORY, INHIBITORY, INK = BLUE, ORANGE, "#222222"
MOST = 98  # percent of the recorded states are within the colours


class Limits(NamedTuple):
    """The values with the outermost colours of the map, on either side of zero; larger ones have the same colours.

    :param state: one number for all neurons, so that most of the recorded states are smaller
    :param inputs: (I,), the largest recorded value of each input, because inputs have different units
    """

    state: float
    inputs: Array


def limits(activity: Activity) -> Limits:
    """Returns the limits of a recording."""
    recorded = activity.neurons, activity.inputs
    states, inputs = (np.where(np.isfinite(values), np.abs(values), 0) for values in recorded)
    # A few neurons of a liquid circuit may swing much further than all others, which would then look alike.
    state = np.percentile(states, MOST) if states.size else 0.0
    return Limits(max(float(state), 1e-6), np.asarray(inputs.max(0, initial=1e-6), np.float64))


@functools.cache
def colour_map() -> Any:
    """Returns the colour map of states: purple below zero, green above. Black text can be read on all its colours."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    whole = matplotlib.colormaps["PRGn"]
    return LinearSegmentedColormap.from_list("activity", whole(np.linspace(0.15, 0.85, 256)))


def activity_colours(values: Array, limit: Any) -> Array:
    """Returns the colours (..., 4) of values (...,); values that are not finite are grey."""
    found = np.asarray(colour_map()(0.5 + 0.5 * np.nan_to_num(values) / limit), np.float64)
    found[~np.isfinite(values)] = (0.6, 0.6, 0.6, 1.0)
    return found


def draw_scale(figure: Any, axes: Any, activity: Activity, fontsize: float = 7) -> None:
    """Draws the colour map with the states that its colours mean."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit = limits(activity).state
    bar = figure.colorbar(ScalarMappable(Normalize(-limit, limit), colour_map()), cax=axes, orientation="horizontal")
    bar.set_ticks([-limit, 0, limit], labels=[f"{-limit:.2g}", "state 0", f"{limit:.2g}"])
    bar.ax.tick_params(labelsize=fontsize, length=2, pad=2)
    bar.outline.set_linewidth(0.5)
