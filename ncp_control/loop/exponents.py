"""Lyapunov exponents of the closed loop: by how much small differences grow or shrink a step, direction by direction.

They are measured along a trajectory with the loop's derivatives, whose products are kept apart by a QR decomposition
after every step (Benettin's method). The interval over several starts is that of Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

from ncp_control.loop.closed import ClosedLoop, LoopState

Array = NDArray[Any]
LEAST = -30.0  # a direction that shrinks faster than this is lost in rounding
SPIN_UP = 200  # steps in which the directions turn towards those that grow
AHEAD = 50  # steps over which the effect of a sensor's error is followed
CONFIDENCE = 0.95


class LoopPath(NamedTuple):
    """What was measured along one trajectory of T steps.

    :param exponents: the mean logarithms of growth a step, the largest first, (K,)
    :param states: the states, T + 1 of them
    :param observations: what the agent saw, (T, n)
    :param carried: how far an error of 1 of each observation moves the actions, (AHEAD, n): the root of the mean square
        over the trajectory, 0, 1, ... steps after it; NaN if the trajectory is too short
    """

    exponents: Array
    states: list[LoopState]
    observations: Array
    carried: Array


class MeanInterval(NamedTuple):
    """A mean over starts, and the interval in which 95 % of such means lie.

    :param mean: the mean
    :param low: the lower end; equal to the mean with one start
    :param high: the upper end
    """

    mean: float
    low: float
    high: float


def follow(loop: ClosedLoop, state: LoopState, steps: int) -> LoopPath:
    """Measures along a trajectory, which ends early where the episode ends.

    :param loop: the closed loop
    :param state: the first state, best on an attractor
    :param steps: so many steps are measured, after 200 in which the directions settle
    """
    count = loop.size - loop.actions  # an action follows from the rest, and has no direction of its own
    # products and decompositions are torch's, which keeps to its number of threads
    directions = torch.linalg.qr(torch.from_numpy(np.random.default_rng(0).normal(size=(loop.size, count))))[0]
    growth, states, seen = [], [state], []
    responses = torch.zeros(0, loop.size, len(loop.body.sensors), dtype=torch.float64)  # to the last AHEAD errors
    squares, counts = np.zeros((AHEAD, len(loop.body.sensors))), np.zeros(AHEAD, int)
    for k in range(SPIN_UP + steps):
        step, matrix, sensors = loop.derivatives(states[-1])
        if step.ended or not np.isfinite(matrix).all():
            break
        carrier = torch.from_numpy(matrix)
        directions, factors = torch.linalg.qr(carrier @ directions)
        responses = torch.cat([torch.from_numpy(sensors)[None], carrier @ responses[: AHEAD - 1]])
        if k < SPIN_UP:
            states[-1] = step.state
            continue
        with np.errstate(divide="ignore"):
            growth.append(np.log(np.abs(np.diagonal(factors.numpy()))))
        states.append(step.state)
        seen.append(step.observation)
        moved = responses[:, loop.size - loop.actions :].numpy()
        squares[: len(moved)] += (moved**2).sum(axis=1)
        counts[: len(moved)] += 1
    found = np.sort(np.maximum(np.mean(growth, axis=0), LEAST))[::-1] if growth else np.full(count, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        carried = np.sqrt(squares / counts[:, None])
    return LoopPath(found, states, np.array(seen).reshape(-1, len(loop.body.sensors)), carried)


def interval(values: Sequence[float]) -> MeanInterval:
    """Returns the mean of values and its 95 % interval by Student's t."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return MeanInterval(mean, mean, mean)
    half = float(student.ppf(0.5 + CONFIDENCE / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return MeanInterval(mean, mean - half, mean + half)


def dimension(exponents: Array) -> float:
    """Returns the dimension of an attractor by Kaplan and Yorke: how many directions together neither grow nor shrink.

    :param exponents: the largest first
    """
    sums = np.cumsum(exponents)
    if not len(exponents) or sums[0] < 0:
        return 0.0
    last = int(np.flatnonzero(sums >= 0)[-1])
    if last + 1 == len(exponents):
        return float(len(exponents))
    return last + 1 + float(sums[last] / -exponents[last + 1])
