"""What all figures of a circuit share: the colours of synapses and states, and the texts on axes and in titles."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.names import shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import BLUE, ORANGE, new_figure
from ncp_control.wiring import Wiring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
EXCITATORY, INHIBITORY, INK = BLUE, ORANGE, "#222222"
MOST = 98  # percent of the recorded states are within the colours
# The inches of a row whose name can be read, and of the largest image, which has 13 million pixels at 150 an inch.
LEAST_ROW, LARGEST = 0.045, 24.0


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
    # A few neurons of a liquid circuit may swing much further than the others, which then would all look alike.
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
    colours = np.asarray(colour_map()(0.5 + 0.5 * np.nan_to_num(values) / limit), np.float64)
    colours[~np.isfinite(values)] = (0.6, 0.6, 0.6, 1.0)
    return colours


def draw_scale(figure: Any, axes: Any, activity: Activity, fontsize: float = 7) -> None:
    """Draws the colour map with the states that its colours mean."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit = limits(activity).state
    bar = figure.colorbar(ScalarMappable(Normalize(-limit, limit), colour_map()), cax=axes, orientation="horizontal")
    bar.set_ticks([-limit, 0, limit], labels=[f"{-limit:.2g}", "state 0", f"{limit:.2g}"])
    bar.ax.tick_params(labelsize=fontsize, length=2, pad=2)
    bar.outline.set_linewidth(0.5)


def sentence_figure(sentence: str) -> Figure:
    """Returns a figure with nothing but a sentence, which says why there is nothing to draw."""
    figure = new_figure(7, 1.6, layout="none")
    figure.text(0.5, 0.5, sentence, ha="center", va="center", fontsize=10, wrap=True, parse_math=False)
    return figure


def halo() -> list[Any]:
    """Returns the path effects that keep text readable where lines cross it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.0, foreground="white", alpha=0.8)]


def row_size(count: int, whole: float, most: float) -> float:
    """Returns the inches for each of `count` rows or columns of an image.

    :param count: how many there are
    :param whole: inches for all of them, if there are neither many nor few
    :param most: inches for one at most
    """
    return min(float(np.clip(whole / max(count, 1), LEAST_ROW, most)), LARGEST / max(count, 1))


def layer_edges(wiring: Wiring) -> list[float]:
    """Returns where layers meet, on an axis whose tick k is neuron k."""
    return [where.stop - 0.5 for where in wiring.layers.values()][:-1]


def name_layers(axes: Any, wiring: Wiring, fontsize: float = 8) -> None:
    """Writes the layers' names on the right of an image that has a row for each neuron."""
    centres = [(where.start + where.stop - 1) / 2 for where in wiring.layers.values()]
    side = axes.secondary_yaxis("right")
    side.set_yticks(centres, list(wiring.layers), fontsize=fontsize)
    side.tick_params(length=0)


def name_ticks(axis: Any, names: Sequence[str], size: float, fontsize: float = 6) -> None:
    """Writes names on an axis, as many of them as there is room for.

    :param axis: the x or the y axis
    :param names: a name for each of 0, 1, 2, ... on the axis
    :param size: inches between two names
    :param fontsize: in points
    """
    every = max(1, int(np.ceil(fontsize * 1.15 / 72 / size)))
    axis.set_ticks(
        range(0, len(names), every), [shortened(name) for name in names[::every]], fontsize=fontsize, parse_math=False
    )
    axis.set_tick_params(length=0 if every == 1 else 2)


def add_seconds(axes: Any, activity: Activity) -> None:
    """Adds an axis in seconds at the top, if the recording says how long a step takes."""
    dt = activity.seconds_per_step
    if dt is not None:
        side = axes.secondary_xaxis("top", functions=(lambda step: step * dt, lambda time: time / dt))
        side.set_xlabel("seconds", fontsize=8, labelpad=2)
        side.tick_params(labelsize=7)


def figure_title(activity: Activity) -> str:
    """Returns the title of a figure: the environment and the number of neurons."""
    env = activity.about.get("env")
    where = f"{shortened(env, 60)}, " if isinstance(env, str) and env else ""
    count = activity.wiring.units
    return f"{where}{count} neuron{'s' if count > 1 else ''}"
