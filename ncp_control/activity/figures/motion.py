"""How a recorded body moves: figures of its poses and of the neurons' states by the phase of its gait, and the gait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import flat_body, heights
from ncp_control.activity.figures.style import (
    INK,
    colour_map,
    layer_edges,
    limits,
    name_layers,
    name_ticks,
    row_size,
    sentence_figure,
)
from ncp_control.activity.names import observation_labels, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
POSES, COLUMNS = 8, 4
PHASES = 16
# A rhythm must have this share of its observation's power, and twice as much again as noise would have there.
CLEAR_GAIT = 0.4
FEWEST_CYCLES, FEWEST_STEPS_PER_CYCLE = 5, 3


def body_figure(activity: Activity, steps: Sequence[int] | None = None) -> Figure:
    """Draws the body at a few steps, all of them at the same scale.

    :param activity: a recorded rollout
    :param steps: the steps; by default eight over one cycle of a clear gait, or else over the longest episode
    """
    from matplotlib.collections import PolyCollection

    body = flat_body(activity)
    if body is None:
        return sentence_figure("No body was recorded.")
    shown = [*(chosen_steps(activity) if steps is None else steps)]
    for step in shown:
        if not 0 <= step < activity.steps:
            raise ValueError(f"step {step} was not recorded: name steps from 0 to {activity.steps - 1}")
    if not shown:
        raise ValueError("name at least one step to draw")
    middle = np.nan_to_num(body.middle)
    across = np.nan_to_num(body.ends[..., 0][:, body.moving])[shown] - middle[shown, 0, None, None]
    reach = 1.1 * float((np.abs(across) + body.radii[body.moving][:, None]).max())
    low, high = heights(body, rare=0)
    if body.ground is not None and not body.above:
        low = min(low, body.ground)
    # A narrow body has room to both sides, because very tall panels do not fit on a page.
    reach, room = max(reach, 0.4 * (high - low)), 0.06 * (high - low)
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    wide = 10 / columns
    figure = new_figure(10, rows * (wide * (high - low) / (2 * reach) + 0.35))
    grid = figure.subplots(rows, columns, squeeze=False)
    seconds = activity.seconds_per_step
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, step in zip(grid.flat, shown, strict=False):
        at = middle[step] if body.above else np.array([middle[step, 0], 0.0])
        outlines, colours = body.drawn(step, at)
        axes.add_collection(PolyCollection(list(outlines), facecolors=colours, edgecolors="white", linewidths=0.6))
        if body.ground is not None and not body.above:
            axes.axhline(body.ground, color=GREY, linewidth=0.8, zorder=0)
        axes.set(xlim=(-reach, reach), ylim=(low - room, high + room), aspect="equal")
        time = f", {step * seconds:.2f} s" if seconds else ""
        axes.set_title(f"step {step}{time}", fontsize=8)
    return figure


def chosen_steps(activity: Activity) -> list[int]:
    """Returns a few steps over one cycle of a clear gait, or else over the longest episode."""
    where = max(activity.episodes, key=lambda episode: episode.stop - episode.start)
    gait = find_gait(activity)
    first, length = where.start, where.stop - where.start
    if gait is not None and gait.share >= gait.needed:
        first, length = first + length // 2, min(max(round(1 / gait.frequency), POSES), length - length // 2)
    return [int(step) for step in np.unique(np.linspace(first, first + length, POSES, endpoint=False).astype(int))]


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


class Gait(NamedTuple):
    """The strongest rhythm in the observations.

    :param observation: number of the observation in which the rhythm is strongest
    :param frequency: cycles a step
    :param share: the rhythm's share of that observation's power
    :param needed: the share that a clear gait has at least
    :param phase: (T,), radians from 0 to 2 pi, 0 where the observation peaks; NaN in episodes that are too short
    """

    observation: int
    frequency: float
    share: float
    needed: float
    phase: Array


def find_gait(activity: Activity) -> Gait | None:
    """Finds the strongest rhythm of any observation in the longest episode; None if every episode is too short."""
    seen = np.asarray(activity.observations, np.float64).reshape(activity.steps, -1)
    seen = np.nan_to_num(seen, posinf=0, neginf=0)
    episodes = activity.episodes
    longest = max(episodes, key=lambda where: where.stop - where.start)
    length = longest.stop - longest.start
    first, last = FEWEST_CYCLES, length // FEWEST_STEPS_PER_CYCLE
    if last <= first:
        return None
    power = np.abs(np.fft.rfft(detrended(seen[longest]) * np.hanning(length)[:, None], axis=0)) ** 2
    total = power[1:].sum(0)
    peaks = first + power[first:last].argmax(0)
    # A tenth of the frequency to each side belongs to the rhythm, because no gait is perfectly regular.
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
    # A short recording has few frequencies, so even the strongest frequency of pure noise has a large share there.
    needed = min(CLEAR_GAIT + 2 * float(near[1:, best].mean()), 0.9)
    return Gait(best, frequency, float(shares[best]), needed, phase)


def detrended(values: Array) -> Array:
    """Returns values (T, n) minus the straight line through each column."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = time @ values / max(float(time @ time), 1e-30)
    return np.asarray(values - values.mean(0) - time[:, None] * slope)


def phase_of(values: Array, frequency: float) -> Array:
    """Returns the phase (T,), from 0 to 2 pi, of the analytic signal of values around a frequency.

    :param values: (T,)
    :param frequency: cycles a step
    """
    count = len(values)
    spectrum = np.fft.fft(detrended(values[:, None])[:, 0])
    at = np.fft.fftfreq(count)
    # This band is wide enough for a phase that wanders, and narrow enough to leave out the harmonics.
    spectrum[(at < 0.6 * frequency) | (at > 1.5 * frequency)] = 0
    return np.asarray(np.angle(np.fft.ifft(spectrum)) % (2 * np.pi))


def by_phase(values: Array, phase: Array) -> Array:
    """Returns the mean of values (T, n) in each part of the cycle, (PHASES, n); NaN in parts that never occur."""
    known = ~np.isnan(phase)
    part = np.minimum((phase[known] / (2 * np.pi) * PHASES).astype(int), PHASES - 1)
    total = np.zeros((PHASES, values.shape[1]))
    np.add.at(total, part, values[known])
    count = np.bincount(part, minlength=PHASES)[:, None]
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def peak_order(states: Array) -> Any:
    """Returns the columns of mean states (PHASES, n) in the order of the phases at which they peak."""
    turn = np.exp(2j * np.pi * (np.arange(PHASES) + 0.5) / PHASES)
    return np.argsort(np.angle(turn @ np.nan_to_num(states - np.nanmean(states, 0))) % (2 * np.pi), kind="stable")
