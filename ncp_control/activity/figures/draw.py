"""Figures of a recorded rollout: each function returns a matplotlib Figure, tied to no window, to restyle or save.

activity = Activity.load("cheetah.npz")
figure = raster_figure(activity)
figure.axes[0].set_title("My title")
figure.savefig("raster.pdf")
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.layout import (
    FONT,
    TITLE_FONT,
    Layout,
    correlations,
    curves,
    input_labels,
    natural_size,
    observation_labels,
    place,
    shortened,
)
from ncp_control.activity.recording.activity import Activity
from ncp_control.support.pictures import BLUE, GREY, ORANGE, new_figure, plain, save_figure
from ncp_control.wiring import Wiring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
EXCITATORY, INHIBITORY, INK = BLUE, ORANGE, "#222222"
FORMATS = ("png", "svg", "pdf")
TRACES, TRACE_STEPS = 8, 200
PHASES = 16
MOST_COLUMNS = 2000
# Of an observation's power, how much more a rhythm must have than the frequencies about it have in noise.
CLEAR_GAIT = 0.4
FEWEST_CYCLES, FEWEST_STEPS_PER_CYCLE = 5, 3


class Gait(NamedTuple):
    """The rhythm that the body moves in.

    :param observation: the one in which it is strongest
    :param frequency: cycles a step
    :param share: of that observation's power
    :param needed: the share from which on it is a clear gait
    :param phase: (T,), radians from 0 to 2 pi, 0 where the observation peaks; NaN in episodes too short to tell
    """

    observation: int
    frequency: float
    share: float
    needed: float
    phase: Array


def wiring_figure(activity: Activity, step: int | None = None) -> Figure:
    """The circuit: synapses by polarity, and if a step is given, nodes by their activity and synapses by their current.

    :param activity: a recorded rollout
    :param step: 0 is the first recorded
    """
    wiring = activity.wiring
    if step is not None and not 0 <= step < activity.steps:
        raise ValueError(f"step {step} was not recorded: there are {activity.steps}, numbered from 0")
    names = input_labels(activity)
    wide, tall = natural_size(wiring, names)
    margin, below = 0.25, 0.62
    figure = new_figure(wide + 2 * margin, tall + below + 0.15, layout="none")
    width, height = figure.get_size_inches()
    axes = figure.add_axes((margin / width, below / height, wide / width, tall / height))
    layout = place(wiring, wide, tall, names)
    set_up(axes, layout)
    draw_synapses(axes, wiring, layout, None if step is None else strengths(activity, step))
    states = None if step is None else activity.neurons[step]
    draw_nodes(axes, activity, layout, states, None if step is None else activity.inputs[step])
    draw_labels(axes, layout)
    handles = polarity_handles(wiring, step is not None)
    place_legend(figure, handles, (margin / width, 0.12 / height))
    if step is not None:
        bar = figure.add_axes(((width - margin - 2.0) / width, 0.38 / height, 2.0 / width, 0.11 / height))
        draw_scale(figure, bar, activity)
        bar.set_title(f"at step {step}{at_time(activity, step)}", fontsize=8, loc="left", pad=3)
    return figure


def raster_figure(activity: Activity, start: int = 0, steps: int | None = None) -> Figure:
    """Every neuron's state over time, by layer, with the episodes' starts marked.

    :param activity: a recorded rollout
    :param start: the first step shown
    :param steps: how many are shown, all by default
    """
    wiring = activity.wiring
    stop = last_step(activity, start, steps)
    row = float(np.clip(9 / wiring.units, 0.045, 0.14))
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
    axes.set_title(title_of(activity), loc="left", fontsize=11)
    return figure


def traces_figure(
    activity: Activity, neurons: Sequence[int | str] | None = None, start: int = 0, steps: int = TRACE_STEPS
) -> Figure:
    """The states of a few neurons over time, one below the other.

    :param activity: a recorded rollout
    :param neurons: numbers or names; by default the liveliest of every layer
    :param start: the first step shown
    :param steps: how many are shown
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
            # A bound far away would flatten the trace.
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


def time_constants_figure(activity: Activity) -> Figure:
    """Every neuron's time constant over the recording, with its bounds, and all of them in one distribution."""
    wiring = activity.wiring
    values = np.asarray(activity.time_constants, np.float64)
    values = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    figure = new_figure(11, 4.6)
    one, other = figure.subplots(1, 2, sharey=True, width_ratios=(4, 1))
    if np.isnan(values).all():
        return sentence_figure("No time constant in this recording is a positive, finite number.")
    columns = np.arange(wiring.units)
    known = ~np.isnan(values).all(0)
    least, low, middle, high, most = np.nanpercentile(values[:, known], (0, 5, 50, 95, 100), axis=0)
    x = columns[known]
    one.vlines(x, least, most, color=EXCITATORY, linewidth=1, label="least to most")
    one.vlines(x, low, high, color=EXCITATORY, linewidth=3.5, alpha=0.5, label="9 of 10 steps")
    one.plot(x, middle, "o", color=INHIBITORY, markersize=4, label="median")
    bounds = np.asarray(activity.time_constant_bounds, np.float64)
    drawable = np.isfinite(bounds) & (bounds > 0)
    if drawable.any():
        one.plot(np.tile(columns, (2, 1))[drawable], bounds[drawable], "_", color=INK, markersize=7, label="bounds")
    one.set(yscale="log", ylabel="time constant, in units of elapsed time", xlim=(-0.7, wiring.units - 0.3))
    note = "" if drawable.all() else f"bounds not drawn: {unbounded(bounds)}"
    one.set_title(note, fontsize=8, loc="left", color=GREY, pad=22)
    name_ticks(one.xaxis, wiring.neuron_names, 8.0 / wiring.units)
    one.tick_params(axis="x", rotation=90)
    for edge in layer_edges(wiring):
        one.axvline(edge, color=GREY, linewidth=0.6)
    one.legend(frameon=False, fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1, 1))
    seen = values[np.isfinite(values)]
    ends = np.log10([seen.min() * 0.999, seen.max() * 1.001])
    other.hist(
        seen, bins=np.logspace(ends[0], ends[1], 60), weights=np.full(seen.size, 1 / seen.size),
        orientation="horizontal", color=EXCITATORY, alpha=0.6,
    )  # fmt: skip
    other.axhline(np.median(seen), color=INHIBITORY, linewidth=1.2)
    other.set_title(f"median {np.median(seen):.3g}", fontsize=8, color=INHIBITORY)
    other.set_xlabel("share of all\nneurons and steps")
    other.xaxis.set_major_formatter("{x:.0%}")
    for axes in (one, other):
        plain(axes)
        axes.grid(axis="y", alpha=0.3)
    return figure


def phase_figure(activity: Activity) -> Figure:
    """The mean state of every neuron by the phase of the gait, in each layer sorted by when it peaks.

    The phase is that of the observation with the strongest rhythm; where none has a clear one, the figure says so.
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
    row = float(np.clip(8 / wiring.units, 0.045, 0.14))
    tall = max(row * wiring.units, 0.6)
    figure = new_figure(7.5, tall + 2.6)
    above, axes = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, tall))
    # Two cycles, since a wave that crosses phase 0 is cut in one.
    centres = (np.arange(2 * PHASES) + 0.5) * 360 / PHASES
    above.plot(centres, np.tile(observed, 2), color=INK)
    rhythm = f"{gait.share:.0%} of its power at {frequency_text(activity, gait.frequency)}"
    above.set_title(
        f"mean of {shortened(names[gait.observation])}: {rhythm}", fontsize=9, loc="left", parse_math=False,
    )  # fmt: skip
    plain(above)
    limit = limits(activity).state
    image = axes.imshow(
        np.tile(states[:, order].T, 2), aspect="auto", interpolation="nearest", cmap=colours(), vmin=-limit, vmax=limit,
        extent=(0, 720, wiring.units - 0.5, -0.5),
    )  # fmt: skip
    name_ticks(axes.yaxis, [wiring.neuron_names[k] for k in order], row)
    for edge in layer_edges(wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    name_layers(axes, wiring)
    axes.set_xticks(range(0, 721, 90))
    axes.set_xlabel("phase of the gait, degrees; 0 where the observation peaks")
    figure.colorbar(image, ax=axes, label="mean state", pad=0.02, aspect=30, shrink=min(1.0, 2.5 / tall))
    return figure


def tuning_figure(activity: Activity) -> Figure:
    """How each neuron's state goes with each observation: their correlation over the recording."""
    names = observation_labels(activity)
    found = correlations(activity.neurons, activity.observations.reshape(activity.steps, -1))
    note = "; grey: does not change" if np.isnan(found).any() else ""
    return map_figure(activity, found, names, f"State and observation{note}", "correlation", (-1, 1))


def saliency_figure(activity: Activity) -> Figure:
    """How much each neuron's next state changes with each input: derivatives, times the input's deviation."""
    found, names = activity.get("saliency"), input_labels(activity)
    if found is None:
        found = np.full((activity.wiring.units, activity.wiring.inputs), np.nan)
    finite = found[np.isfinite(found)]
    most = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return map_figure(activity, found, names, "Next state and input", "change for a standard deviation", (0, most))


def map_figure(
    activity: Activity, found: Array, columns: Sequence[str], title: str, label: str, ends: tuple[float, float]
) -> Figure:
    """A number for each neuron and column, (N, C), as a heat map."""
    wiring, names = activity.wiring, [shortened(name) for name in columns]
    row, column = float(np.clip(9 / wiring.units, 0.045, 0.16)), float(np.clip(8 / len(names), 0.045, 0.3))
    tall, wide = max(row * wiring.units, 0.6), max(column * len(names), 2.0)
    figure = new_figure(wide + 2.9, tall + 2.2)
    axes = figure.subplots()
    shades = colours() if ends[0] < 0 else "cividis"
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


def write_figures(activity: Activity, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Draws all figures into a folder, each whole or not at all, and returns their paths.

    :param activity: a recorded rollout
    :param folder: made if it is not there
    :param formats: of png, svg and pdf
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ValueError(f"a figure is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {kind!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in _ALL.items():
        figure = draw(activity)
        for kind in formats:
            paths.append(folder / f"{name}.{kind}")
            save_figure(figure, paths[-1], dpi=150)
    return paths


_ALL = {
    "wiring": wiring_figure,
    "activity": lambda activity: wiring_figure(activity, activity.steps // 2),
    "raster": raster_figure,
    "traces": traces_figure,
    "time_constants": time_constants_figure,
    "phase": phase_figure,
    "tuning": tuning_figure,
    "saliency": saliency_figure,
}


def sentence_figure(sentence: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure = new_figure(7, 1.6, layout="none")
    figure.text(0.5, 0.5, sentence, ha="center", va="center", fontsize=10, wrap=True, parse_math=False)
    return figure


@functools.cache
def colours() -> Any:
    """The colour map of activity: purple below zero, green above, none so dark that black text cannot be read on it."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    whole = matplotlib.colormaps["PRGn"]
    return LinearSegmentedColormap.from_list("activity", whole(np.linspace(0.15, 0.85, 256)))


class Limits(NamedTuple):
    """What has the last colour of the map: the largest seen, on either side of zero.

    :param state: of all neurons
    :param inputs: (I,), of each input, as their units differ
    """

    state: float
    inputs: Array


def limits(activity: Activity) -> Limits:
    """Those of a recording."""
    states, inputs = (
        np.where(np.isfinite(values), np.abs(values), 0).max(0, initial=1e-6)
        for values in (activity.neurons, activity.inputs)
    )
    return Limits(float(states.max()), np.asarray(inputs, np.float64))


def activity_colours(values: Array, limit: Any) -> Array:
    """(..., 4): the colours of values (...,), grey where they are no numbers."""
    found = np.asarray(colours()(0.5 + 0.5 * np.nan_to_num(values) / limit), np.float64)
    found[~np.isfinite(values)] = (0.6, 0.6, 0.6, 1.0)
    return found


def strengths(activity: Activity, step: int) -> Array:
    """(S + E,): how strong each synapse's current is at a step, from 0 to 1 for nearly the largest there was."""
    currents = np.abs(np.concatenate([activity.sensory_currents[step], activity.currents[step]]))
    return np.asarray(np.clip(np.nan_to_num(currents) / current_limit(activity), 0, 1))


def current_limit(activity: Activity) -> float:
    """The current that is drawn widest: only one in a hundred is larger."""
    # A few hundred steps say enough, and a long recording has millions of currents.
    every = max(1, activity.steps // 500)
    seen = np.concatenate([activity.sensory_currents[::every].ravel(), activity.currents[::every].ravel()])
    seen = np.abs(seen[np.isfinite(seen)])
    return float(max(np.percentile(seen, 99) if seen.size else 0.0, 1e-9))


def synapse_lines(wiring: Wiring, layout: Layout, points: int = 20) -> Array:
    """(S + E, P, 2): a line for each sensory and then each other synapse."""
    start = np.concatenate([layout.inputs[wiring.sensory.source], layout.neurons[wiring.synapses.source]])
    end = np.concatenate([layout.neurons[wiring.sensory.target], layout.neurons[wiring.synapses.target]])
    return curves(start, end, layout.radius, points)


def polarity_colours(wiring: Wiring) -> Any:
    """(S + E, 4): the colour of each synapse."""
    from matplotlib.colors import to_rgba

    exciting = np.concatenate([wiring.sensory.polarity, wiring.synapses.polarity]) > 0
    return np.where(exciting[:, None], to_rgba(EXCITATORY), to_rgba(INHIBITORY))


def set_up(axes: Any, layout: Layout) -> None:
    """Axes in the inches of a layout."""
    axes.set(xlim=(0, layout.width), ylim=(0, layout.height))
    axes.set_axis_off()


def draw_synapses(axes: Any, wiring: Wiring, layout: Layout, strength: Array | None = None, faint: float = 1.0) -> None:
    """Every synapse and gap junction.

    :param strength: (S + E,), 0 to 1, widens and darkens them; all alike if None
    :param faint: multiplies how much they cover
    """
    from matplotlib.collections import LineCollection

    count = len(wiring.sensory) + len(wiring.synapses)
    color = polarity_colours(wiring)
    cover: Any = float(np.clip(min(12 / max(count, 1) ** 0.5, 600 / max(count, 1)), 0.015, 0.8)) * faint
    width: Any = 0.9 if count < 2000 else 0.5
    order = np.arange(count)
    if strength is not None:
        # The strongest last, on top.
        order = np.argsort(strength, kind="stable")
        cover = 0.10 * min(1.0, cover * 2) + 0.85 * strength**1.5
        width = (0.3 + 2.4 * strength)[order]
    color[:, 3] = cover
    lines = LineCollection(
        list(synapse_lines(wiring, layout, 20 if count < 5000 else 8)[order]), colors=color[order], linewidths=width,
        capstyle="round", zorder=1, clip_on=False,
    )  # fmt: skip
    # Tens of thousands of lines make a vector file that nobody can open.
    lines.set_rasterized(count > 3000)
    lines.set_gid("synapses")
    axes.add_collection(lines)
    if len(wiring.gap_junctions):
        a, b = wiring.gap_junctions.T
        # On the other side of the column than synapses.
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
    """Inputs as squares and neurons as discs, coloured by activity if it is given: both collections."""
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
    """Gives nodes the colours of a step's activity: (N,) states and (I,) inputs."""
    discs.set_facecolor(activity_colours(states, most.state))
    squares.set_facecolor(activity_colours(inputs, most.inputs))


def draw_labels(axes: Any, layout: Layout, of_inputs_only: bool = False) -> None:
    """Titles of the columns, and names of the nodes or only of the inputs."""
    for title, x, y in layout.titles:
        axes.text(x, y, title, fontsize=TITLE_FONT * layout.scale, ha="center", va="center", color=INK, weight="bold")
    for label in layout.labels:
        if label.align == "right" or not of_inputs_only:
            axes.text(
                label.x, label.y, label.text, fontsize=FONT * layout.scale, ha=label.align, va="center_baseline",
                color=INK, parse_math=False, zorder=3, path_effects=halo() if label.align == "left" else None,
            )  # fmt: skip


def halo() -> list[Any]:
    """What keeps text readable that lines cross."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.0, foreground="white", alpha=0.8)]


def polarity_handles(wiring: Wiring, strength: bool) -> list[Any]:
    """What the legend of a circuit shows."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=EXCITATORY, linewidth=2, label="excitatory")]
    handles.append(Line2D([], [], color=INHIBITORY, linewidth=2, label="inhibitory"))
    if len(wiring.gap_junctions):
        handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (2, 1.5)), label="gap junction"))
    if strength:
        handles.append(Line2D([], [], color=GREY, linewidth=4, label="wide: a strong current"))
    return handles


def place_legend(figure: Any, handles: list[Any], corner: tuple[float, float], fontsize: float = 8) -> None:
    """A legend in one row, its lower left corner there."""
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=corner, ncols=len(handles), frameon=False, fontsize=fontsize,
        borderpad=0, borderaxespad=0, handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip


def draw_scale(figure: Any, axes: Any, activity: Activity, fontsize: float = 7) -> None:
    """The colours of activity, with the states they mean."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit = limits(activity).state
    bar = figure.colorbar(ScalarMappable(Normalize(-limit, limit), colours()), cax=axes, orientation="horizontal")
    bar.set_ticks([-limit, 0, limit], labels=[f"{-limit:.2g}", "state 0", f"{limit:.2g}"])
    bar.ax.tick_params(labelsize=fontsize, length=2, pad=2)
    bar.outline.set_linewidth(0.5)


def draw_raster(axes: Any, activity: Activity, start: int, stop: int) -> Any:
    """States from one step to before another as an image, a row for each neuron, with lines between layers."""
    limit = limits(activity).state
    # Means of a few steps where there are more steps than a picture has columns.
    every = -(-(stop - start) // MOST_COLUMNS)
    states = np.stack([activity.neurons[k : min(k + every, stop)].mean(0) for k in range(start, stop, every)])
    image = axes.imshow(
        states.T, aspect="auto", interpolation="nearest", cmap=colours(), vmin=-limit, vmax=limit,
        extent=(start - 0.5, start - 0.5 + every * len(states), activity.wiring.units - 0.5, -0.5),
    )  # fmt: skip
    axes.set_xlim(start - 0.5, stop - 0.5)
    for edge in layer_edges(activity.wiring):
        axes.axhline(edge, color=INK, linewidth=1)
    return image


def draw_starts(axes: Any, activity: Activity, start: int, stop: int) -> list[Any]:
    """Marks where episodes start after the first of these steps; the lines."""
    steps = np.flatnonzero(activity.episode_starts[start + 1 : stop]) + start + 1
    return [
        axes.axvline(step - 0.5, color=INK, linestyle="--", linewidth=1, label="an episode starts") for step in steps
    ]


def layer_edges(wiring: Wiring) -> list[float]:
    """Where one layer ends and the next begins, with a neuron's middle at its number."""
    return [where.stop - 0.5 for where in wiring.layers.values()][:-1]


def name_layers(axes: Any, wiring: Wiring, fontsize: float = 8) -> None:
    """The layers' names on the right of an image with a row for each neuron."""
    centres = [(where.start + where.stop - 1) / 2 for where in wiring.layers.values()]
    side = axes.secondary_yaxis("right")
    side.set_yticks(centres, list(wiring.layers), fontsize=fontsize)
    side.tick_params(length=0)


def name_ticks(axis: Any, names: Sequence[str], size: float, fontsize: float = 6) -> None:
    """Names on an axis, as many of them as have room.

    :param size: inches from one to the next
    """
    every = max(1, int(np.ceil(fontsize * 1.15 / 72 / size)))
    axis.set_ticks(
        range(0, len(names), every), [shortened(name) for name in names[::every]], fontsize=fontsize, parse_math=False
    )
    axis.set_tick_params(length=0 if every == 1 else 2)


def add_seconds(axes: Any, activity: Activity) -> None:
    """A second axis in seconds on top, where the recording says how long a step takes."""
    dt = seconds_per_step(activity)
    if dt is not None:
        side = axes.secondary_xaxis("top", functions=(lambda step: step * dt, lambda time: time / dt))
        side.set_xlabel("seconds", fontsize=8, labelpad=2)
        side.tick_params(labelsize=7)


def last_step(activity: Activity, start: int, steps: int | None) -> int:
    """The step after the last one shown; refuses a range without a step."""
    if steps is not None and steps < 1:
        raise ValueError(f"show at least 1 step, not {steps}")
    if not 0 <= start < activity.steps:
        raise ValueError(f"step {start} was not recorded: start at one of 0 to {activity.steps - 1}")
    return activity.steps if steps is None else min(start + steps, activity.steps)


def seconds_per_step(activity: Activity) -> float | None:
    """How long a step takes, or None where the recording does not say."""
    dt = activity.about.get("dt")
    known = isinstance(dt, (int, float)) and not isinstance(dt, bool) and np.isfinite(dt) and dt > 0
    return float(dt) if known and dt is not None else None


def at_time(activity: Activity, step: int) -> str:
    """The time of a step in words, or nothing."""
    dt = seconds_per_step(activity)
    return "" if dt is None else f", {step * dt:.2f} s"


def frequency_text(activity: Activity, frequency: float) -> str:
    """Cycles a step as a reader wants them."""
    dt = seconds_per_step(activity)
    return f"{1 / frequency:.1f} steps a cycle" if dt is None else f"{frequency / dt:.2f} cycles a second"


def title_of(activity: Activity) -> str:
    """Where the recording was made, and of what."""
    env = activity.about.get("env")
    where = f"{shortened(env, 60)}, " if isinstance(env, str) and env else ""
    count = activity.wiring.units
    return f"{where}{count} neuron{'s' if count > 1 else ''}".replace("$", r"\$")


def liveliest(activity: Activity, count: int) -> list[int]:
    """The neurons whose states vary most, from every layer in turn, in the circuit's order."""
    spread = np.nan_to_num(np.asarray(activity.neurons, np.float64)).std(0)
    ranked = [
        list(where.start + np.argsort(-spread[where], kind="stable")) for where in activity.wiring.layers.values()
    ]
    taken = [layer[k] for k in range(max(map(len, ranked))) for layer in ranked if k < len(layer)]
    return sorted(int(neuron) for neuron in taken[:count])


def unbounded(bounds: Array) -> str:
    """In words what the bounds are that a logarithmic axis cannot show."""
    low, high = bounds
    words = []
    if (low <= 0).any():
        words.append("the least may be 0")
    if np.isinf(high).any():
        words.append("the most has no bound")
    return " and ".join(words) or "some are not known"


def find_gait(activity: Activity) -> Gait | None:
    """The strongest rhythm of any observation in the longest episode; None where every episode is too short."""
    seen = np.asarray(activity.observations, np.float64).reshape(activity.steps, -1)
    seen = np.nan_to_num(seen, posinf=0, neginf=0)
    episodes = episode_slices(activity)
    longest = max(episodes, key=lambda where: where.stop - where.start)
    length = longest.stop - longest.start
    first, last = FEWEST_CYCLES, length // FEWEST_STEPS_PER_CYCLE
    if last <= first:
        return None
    power = np.abs(np.fft.rfft(detrended(seen[longest]) * np.hanning(length)[:, None], axis=0)) ** 2
    total = power[1:].sum(0)
    peaks = first + power[first:last].argmax(0)
    # A tenth to each side, as no gait is perfectly regular.
    bins = np.arange(len(power))[:, None]
    near = np.abs(bins - peaks) <= np.maximum(2, 0.1 * peaks)
    constant = total <= 1e-12 * np.maximum((seen[longest] ** 2).sum(0) * length, 1e-30)
    shares = np.where(constant, 0.0, (power * near).sum(0) / np.where(constant, 1.0, total))
    best = int(shares.argmax())
    frequency = float(peaks[best] / length)
    phase = np.full(activity.steps, np.nan)
    for where in episodes:
        if (where.stop - where.start) * frequency >= 2:
            phase[where] = phase_of(seen[where, best], frequency)
    # In a short recording a tenth is so few frequencies that the luckiest noise has several times its share in them.
    needed = min(CLEAR_GAIT + 2 * float(near[1:, best].mean()), 0.9)
    return Gait(best, frequency, float(shares[best]), needed, phase)


def episode_slices(activity: Activity) -> list[slice]:
    """The steps of each episode."""
    edges = np.unique([0, *np.flatnonzero(activity.episode_starts), activity.steps])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def detrended(values: Array) -> Array:
    """(T, n) less the straight line through each column."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = time @ values / max(float(time @ time), 1e-30)
    return np.asarray(values - values.mean(0) - time[:, None] * slope)


def phase_of(values: Array, frequency: float) -> Array:
    """(T,): the phase of the analytic signal of (T,) values around a frequency (cycles a step), 0 to 2 pi."""
    count = len(values)
    spectrum = np.fft.fft(detrended(values[:, None])[:, 0])
    at = np.fft.fftfreq(count)
    # Half an octave and more to each side: the phase may wander, the harmonics must not be counted as cycles.
    spectrum[(at < 0.6 * frequency) | (at > 1.5 * frequency)] = 0
    return np.asarray(np.angle(np.fft.ifft(spectrum)) % (2 * np.pi))


def by_phase(values: Array, phase: Array) -> Array:
    """(PHASES, n): the mean of (T, n) values in each part of the cycle; NaN where it was never seen."""
    known = ~np.isnan(phase)
    part = np.minimum((phase[known] / (2 * np.pi) * PHASES).astype(int), PHASES - 1)
    total = np.zeros((PHASES, values.shape[1]))
    np.add.at(total, part, values[known])
    count = np.bincount(part, minlength=PHASES)[:, None]
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def peak_order(states: Array) -> Any:
    """Of (PHASES, n) mean states, the columns by the phase of their first harmonic."""
    turn = np.exp(2j * np.pi * (np.arange(PHASES) + 0.5) / PHASES)
    return np.argsort(np.angle(turn @ np.nan_to_num(states - np.nanmean(states, 0))) % (2 * np.pi), kind="stable")
