"""The circuit as a figure, and the pieces that it is drawn from: synapses, nodes, labels and the legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.style import (
    EXCITATORY,
    INHIBITORY,
    INK,
    LARGEST,
    Limits,
    activity_colours,
    draw_scale,
    halo,
    limits,
)
from ncp_control.activity.layout import FONT, TITLE_FONT, Layout, curves, natural_size, place
from ncp_control.activity.names import input_labels
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure
from ncp_control.wiring import Wiring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def wiring_figure(activity: Activity, step: int | None = None) -> Figure:
    """Draws the circuit, its synapses coloured by the polarity with which it was wired.

    If a step is given, nodes show their states and synapses their currents at that step; their colours say whether they
    push their targets up or down.

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
    strength, color = None, polarity_colours(wiring)
    if step is not None:
        color = effect_colours(activity, step)
        if activity.currents_are_known:
            strength = current_strengths(activity, step, current_limit(activity))
    draw_synapses(axes, wiring, layout, color, strength)
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


def current_strengths(activity: Activity, step: int, limit: float) -> Array:
    """Returns how strong each synapse's current is at a step, (S + E,), from 0 to 1 for `limit` and above.

    A current that is not known has strength 0.
    """
    currents = np.abs(np.concatenate([activity.sensory_currents[step], activity.currents[step]]))
    return np.asarray(np.clip(np.nan_to_num(currents) / limit, 0, 1))


def current_limit(activity: Activity) -> float:
    """Returns the current that is drawn with the greatest width: one current in a hundred is larger."""
    # A few hundred steps suffice for the estimate, and a long recording has millions of currents.
    every = max(1, activity.steps // 500)
    seen = np.concatenate([activity.sensory_currents[::every].ravel(), activity.currents[::every].ravel()])
    seen = np.abs(seen[np.isfinite(seen)])
    return float(max(np.percentile(seen, 99) if seen.size else 0.0, 1e-9))


def synapse_lines(wiring: Wiring, layout: Layout, points: int = 20) -> Array:
    """Returns a line (P, 2) for each sensory and then each other synapse, (S + E, P, 2)."""
    start = np.concatenate([layout.inputs[wiring.sensory.source], layout.neurons[wiring.synapses.source]])
    end = np.concatenate([layout.neurons[wiring.sensory.target], layout.neurons[wiring.synapses.target]])
    return curves(start, end, layout.radius, points)


def polarity_colours(wiring: Wiring) -> Any:
    """Returns the colour of each sensory and then each other synapse, (S + E, 4)."""
    from matplotlib.colors import to_rgba

    exciting = np.concatenate([wiring.sensory.polarity, wiring.synapses.polarity]) > 0
    return np.where(exciting[:, None], to_rgba(EXCITATORY), to_rgba(INHIBITORY))


def effect_colours(activity: Activity, step: int) -> Any:
    """Returns the colour of what each sensory and then each other synapse does to its target at a step, (S + E, 4).

    Learning need not keep the polarity of the wiring, and a source below zero turns the sign of many a current.
    """
    from matplotlib.colors import to_rgba

    signs = np.sign(np.nan_to_num(np.concatenate([activity.sensory_currents[step], activity.currents[step]])))
    return np.array([to_rgba(GREY), to_rgba(EXCITATORY), to_rgba(INHIBITORY)])[signs.astype(int)]


def set_up(axes: Any, layout: Layout) -> None:
    """Gives axes the inches of a layout as their coordinates."""
    axes.set(xlim=(0, layout.width), ylim=(0, layout.height))
    axes.set_axis_off()


def draw_synapses(
    axes: Any, wiring: Wiring, layout: Layout, color: Any, strength: Array | None = None, faint: float = 1.0
) -> None:
    """Draws every synapse and every gap junction.

    :param axes: from `set_up`
    :param wiring: the circuit's
    :param layout: where the nodes are
    :param color: of each synapse, (S + E, 4)
    :param strength: (S + E,) from 0 to 1; stronger synapses are wider and darker. All look alike if None
    :param faint: a factor for their opacity
    """
    from matplotlib.collections import LineCollection

    count = wiring.existing_synapses
    # The more synapses there are, the fainter each is drawn, or they would cover everything.
    opacity: Any = float(np.clip(min(12 / max(count, 1) ** 0.5, 600 / max(count, 1)), 0.015, 0.8)) * faint
    width: Any = 0.9 if count < 2000 else 0.5
    order = np.arange(count)
    if strength is not None:
        # The strongest are drawn last, on top of the others.
        order = np.argsort(strength, kind="stable")
        opacity = 0.10 * min(1.0, opacity * 2) + 0.85 * strength**1.5
        width = (0.3 + 2.4 * strength)[order]
    color[:, 3] = opacity
    lines = LineCollection(
        list(synapse_lines(wiring, layout, 20 if count < 5000 else 8)[order]), colors=color[order], linewidths=width,
        capstyle="round", zorder=1, clip_on=False,
    )  # fmt: skip
    # A vector file with tens of thousands of lines could not be opened.
    lines.set_rasterized(count > 3000)
    lines.set_gid("synapses")
    axes.add_collection(lines)
    if len(wiring.gap_junctions):
        a, b = wiring.gap_junctions.T
        # The mirror puts them on the other side of the column than the synapses.
        mirror = np.array([-1.0, 1.0])
        joined = curves(layout.neurons[a] * mirror, layout.neurons[b] * mirror, layout.radius) * mirror
        gaps = LineCollection(
            list(joined), colors=INK, linewidths=1.0, linestyles=(0, (2, 1.5)), alpha=0.8, zorder=1, clip_on=False
        )
        gaps.set_gid("gap junctions")
        axes.add_collection(gaps)


def draw_nodes(
    axes: Any, activity: Activity, layout: Layout, states: Array | None, inputs: Array | None, animated: bool = False
) -> tuple[Any, Any]:
    """Draws inputs as squares and neurons as discs, coloured by activity if states and inputs are given.

    :param axes: from `set_up`
    :param activity: gives the limits of the colours
    :param layout: where the nodes are
    :param states: (N,) or None
    :param inputs: (I,) or None
    :param animated: whether the nodes are left out when the figure is drawn as a whole
    :return: the squares and the discs, as two collections
    """
    from matplotlib.collections import PolyCollection

    turn = np.linspace(0, 2 * np.pi, 33)[:-1]
    circle = np.stack([np.cos(turn), np.sin(turn)], 1)
    square = 0.8 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    drawn = []
    for shape, places, name in ((square, layout.inputs, "inputs"), (circle, layout.neurons, "neurons")):
        nodes = PolyCollection(
            list(places[:, None] + layout.radius * shape), facecolors="white", edgecolors=INK,
            linewidths=0.7 * layout.scale, zorder=2,
        )  # fmt: skip
        nodes.set_gid(name)
        nodes.set_animated(animated)
        drawn.append(axes.add_collection(nodes))
    if states is not None and inputs is not None:
        colour_nodes(drawn[0], drawn[1], states, inputs, limits(activity))
    return drawn[0], drawn[1]


def colour_nodes(squares: Any, discs: Any, states: Array, inputs: Array, most: Limits) -> None:
    """Colours nodes by the states (N,) and inputs (I,) of a step."""
    discs.set_facecolor(activity_colours(states, most.state))
    squares.set_facecolor(activity_colours(inputs, most.inputs))


def draw_labels(axes: Any, layout: Layout, of_inputs_only: bool = False) -> None:
    """Draws the titles of the columns and the names of all nodes, or of the inputs alone."""
    for title, x, y in layout.titles:
        axes.text(x, y, title, fontsize=TITLE_FONT * layout.scale, ha="center", va="center", color=INK, weight="bold")
    for label in layout.labels:
        if label.align == "right" or not of_inputs_only:
            axes.text(
                label.x, label.y, label.text, fontsize=FONT * layout.scale, ha=label.align, va="center_baseline",
                color=INK, parse_math=False, zorder=3, path_effects=halo() if label.align == "left" else None,
            )  # fmt: skip


def legend_handles(activity: Activity, at_a_step: bool) -> list[Any]:
    """Returns what the legend of a circuit shows.

    :param activity: a recorded rollout
    :param at_a_step: whether the picture shows the currents of a step, if they are known
    """
    from matplotlib.lines import Line2D

    names = ("pushes its target up", "pushes it down") if at_a_step else ("wired to excite", "wired to inhibit")
    handles = []
    if activity.currents_are_known or not at_a_step:
        colours = zip((EXCITATORY, INHIBITORY), names, strict=True)
        handles = [Line2D([], [], color=color, linewidth=2, label=name) for color, name in colours]
    if len(activity.wiring.gap_junctions):
        handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (2, 1.5)), label="gap junction"))
    if at_a_step and activity.currents_are_known:
        handles.append(Line2D([], [], color=GREY, linewidth=4, label="wide: a strong current"))
    elif at_a_step:
        handles.append(Line2D([], [], linestyle="none", label="currents: not known"))
    return handles


def place_legend(figure: Any, handles: list[Any], corner: tuple[float, float], fontsize: float = 8) -> None:
    """Draws a legend in one row with its lower left corner at `corner`, in parts of the figure's size."""
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=corner, ncols=len(handles), frameon=False, fontsize=fontsize,
        borderpad=0, borderaxespad=0, handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip
