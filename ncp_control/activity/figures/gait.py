"""The rhythm in which a recorded body moves, and the mean of anything by its phase."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity

Array = NDArray[np.float64]
PHASES = 16
# A rhythm must have this share of its observation's power, and twice as much again as noise would have there.
CLEAR_GAIT = 0.4
FEWEST_CYCLES, FEWEST_STEPS_PER_CYCLE = 5, 3


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
