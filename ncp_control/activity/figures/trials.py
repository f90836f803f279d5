"""Neurons trial by trial, in recordings of environments whose trials follow each other: a heat map of all trials and
the mean activity for each condition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.states import liveliest
from ncp_control.activity.figures.style import colour_map, figure_title, limits, sentence_figure
from ncp_control.activity.names import shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)
NEURONS, COLUMNS = 12, 4
MOST_ROWS = 600  # trials in a heat map; of more, every second, third, ... is drawn
FEWEST = 2  # trials of which a mean has a standard error


class SortedTrials(NamedTuple):
    """The whole trials of a recording, sorted by condition.

    :param steps: the steps of each trial
    :param conditions: the number of each trial's condition
    :param names: of the conditions
    :param correct: the share of the condition's trials that were right; NaN where the recording does not say
    """

    steps: list[slice]
    conditions: NDArray[np.intp]
    names: list[str]
    correct: Array


def has_trials(activity: Activity) -> bool:
    """Whether the environment said where trials end."""
    return activity.get("new_trial") is not None


def trials_of(activity: Activity) -> SortedTrials:
    """Finds the trials of a recording that are there from the first step to the last.

    A trial's condition is the right action, `gt`, of its last step. There is one condition if `gt` is missing, has
    several numbers, or has more different values than a legend can show.
    """
    ends = activity.get("new_trial")
    if ends is None:
        raise ValueError("this recording has no trials: its environment gave no info['new_trial']")
    steps = []
    for episode in activity.episodes:
        edges = [episode.start, *(episode.start + 1 + np.flatnonzero(ends[episode]))]
        steps += [slice(int(start), int(stop)) for start, stop in itertools.pairwise(edges)]
    last = [trial.stop - 1 for trial in steps]
    right, values = activity.get("gt"), np.zeros(len(steps))
    if right is not None and right.ndim == 1 and 1 < len(np.unique(right[last])) <= len(COLOURS):
        values = right[last].astype(np.float64)
    kinds, conditions = np.unique(values, return_inverse=True)
    names = ["all trials"] if len(kinds) < 2 else [_condition(activity, value) for value in kinds]
    performance = activity.get("performance")
    shares = np.full(len(steps), np.nan) if performance is None else performance[last].astype(np.float64)
    correct = np.array([_mean(shares[conditions == k]) for k in range(len(names))])
    order = np.argsort(conditions, kind="stable")
    return SortedTrials([steps[k] for k in order], conditions[order], names, correct)


def trials_figure(activity: Activity, neurons: Sequence[int | str] | None = None) -> Figure:
    """Draws neurons aligned to the start of the trials: a row for each trial, sorted by condition, and below it the
    mean of each condition with its standard error.

    At a time that only some trials reach, the mean is over these.

    :param activity: a recording of an environment with trials
    :param neurons: numbers or names; by default up to 12: motor and command neurons, then those that vary most
    """
    trials, wiring = trials_of(activity), activity.wiring
    if not trials.steps:
        return sentence_figure("No whole trial was recorded: record more steps.")
    shown = _first(activity) if neurons is None else [wiring.neuron(name) for name in neurons]
    if not shown:
        raise ValueError("name at least one neuron to draw")
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(max(3.1 * columns, 7), 3.5 * rows + 1.0)
    pairs = figure.subplots(2 * rows, columns, squeeze=False, sharex=True, height_ratios=[1.25, 1] * rows)
    scale, unit = _time(activity)
    image: Any = None
    for place, neuron in enumerate(shown):
        row, column = divmod(place, columns)
        above, below = pairs[2 * row, column], pairs[2 * row + 1, column]
        image = _draw_trials(above, activity, trials, neuron, scale)
        _draw_means(below, activity, trials, neuron, scale)
        above.set_title(shortened(wiring.neuron_names[neuron]), fontsize=9, loc="left", parse_math=False)
        if column == 0:
            above.set_ylabel("trial", fontsize=8)
            below.set_ylabel("mean state", fontsize=8)
        if place + columns >= len(shown):
            below.set_xlabel(f"time in the trial ({unit})", fontsize=8)
            below.tick_params(labelbottom=True)
    for place in range(len(shown), rows * columns):
        row, column = divmod(place, columns)
        for axes in (pairs[2 * row, column], pairs[2 * row + 1, column]):
            axes.set_axis_off()
    figure.colorbar(image, ax=list(pairs.ravel()), label="state", pad=0.01, aspect=40, shrink=min(1.0, 0.9 / rows))
    title = "right action" if len(trials.names) > 1 else None
    figure.legend(handles=_handles(trials), title=title, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"{figure_title(activity)}, {len(trials.steps):,} trials", fontsize=11, parse_math=False)
    return figure


def _draw_trials(axes: Any, activity: Activity, trials: SortedTrials, neuron: int, scale: float) -> Any:
    """Draws a row for each trial, and the conditions as a strip of colours at the left."""
    limit = limits(activity).state
    table = _aligned(activity, trials.steps, neuron)
    drawn = slice(None, None, -(-len(table) // MOST_ROWS))
    table, width = table[drawn], table.shape[1] * scale
    image = axes.imshow(
        table, aspect="auto", interpolation="nearest", cmap=colour_map(), vmin=-limit, vmax=limit,
        extent=(-0.5 * scale, width - 0.5 * scale, len(trials.steps), 0),
    )  # fmt: skip
    strip = -0.04 * width - 0.5 * scale
    for k in range(len(trials.names)):
        where = np.flatnonzero(trials.conditions == k)
        axes.fill_betweenx([where[0], where[-1] + 1], strip, -0.5 * scale, color=COLOURS[k], linewidth=0)
    axes.set_xlim(strip, width - 0.5 * scale)
    axes.tick_params(labelsize=7)
    plain(axes)
    return image


def _draw_means(axes: Any, activity: Activity, trials: SortedTrials, neuron: int, scale: float) -> None:
    """Draws the mean of each condition, with a band of one standard error to either side."""
    for k in range(len(trials.names)):
        chosen = [trials.steps[place] for place in np.flatnonzero(trials.conditions == k)]
        table = _aligned(activity, chosen, neuron)
        counts = (~np.isnan(table)).sum(0)
        table = table[:, counts >= min(FEWEST, len(chosen))]
        counts, time = counts[: table.shape[1]], scale * np.arange(table.shape[1])
        mean = np.nanmean(table, axis=0)
        axes.plot(time, mean, color=COLOURS[k], linewidth=1.4)
        if len(chosen) >= FEWEST:
            error = np.nanstd(table, axis=0, ddof=1) / np.sqrt(counts)
            axes.fill_between(time, mean - error, mean + error, color=COLOURS[k], alpha=0.25, linewidth=0)
    axes.tick_params(labelsize=7)
    plain(axes)


def _aligned(activity: Activity, steps: Sequence[slice], neuron: int) -> Array:
    """Returns a row for each trial, which ends with NaN if another trial is longer."""
    table = np.full((len(steps), max(trial.stop - trial.start for trial in steps)), np.nan)
    for row, trial in zip(table, steps, strict=True):
        row[: trial.stop - trial.start] = activity.neurons[trial, neuron]
    return table


def _first(activity: Activity) -> list[int]:
    """Returns the motor neurons, the command neurons, and then those that vary most, 12 at most."""
    layers, chosen = activity.wiring.layers, list[int]()
    for name in ("motor", "command"):
        where = layers.get(name, slice(0, 0))
        chosen += range(where.start, where.stop)
    chosen += [neuron for neuron in liveliest(activity, activity.wiring.units) if neuron not in chosen]
    return chosen[:NEURONS]


def _condition(activity: Activity, value: float) -> str:
    """Returns the name of the right action, from the environment if it names its choices."""
    names = activity.about.get("choice_names") or ()
    if value == int(value) and 0 <= value < len(names):
        return shortened(str(names[int(value)]))
    return f"action {value:g}"


def _handles(trials: SortedTrials) -> list[Any]:
    """Returns the entries of the legend: the conditions, how many trials each has, and how many were right."""
    from matplotlib.lines import Line2D

    labels = []
    for k, name in enumerate(trials.names):
        correct = "" if np.isnan(trials.correct[k]) else f", {100 * trials.correct[k]:.0f} % correct"
        labels.append(f"{name} ({(trials.conditions == k).sum():,} trials{correct})")
    return [Line2D([], [], color=COLOURS[k], linewidth=3, label=label) for k, label in enumerate(labels)]


def _time(activity: Activity) -> tuple[float, str]:
    """Returns the length of a step, and its unit."""
    seconds = activity.seconds_per_step
    return (1.0, "steps") if seconds is None else (1000 * seconds, "ms")


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
