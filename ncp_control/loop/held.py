"""A circuit alone: where its neurons come to rest while the agent sees the same thing all the time.

From many states, Levenberg-Marquardt's method looks for states that a step does not change: fixed points. Where it ends
without one, the step is shortest, and the circuit passes slowly: a slow point. The eigenvalues of the step's derivative
at such a point are the circuit's modes there. A mode's time constant is how long it remembers, its period how fast it
oscillates, and the observation that drives it most is what it is tuned to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.loop.closed import ClosedLoop, slopes

Array = NDArray[Any]
ROUNDS = 60  # of the search
FIXED = 1e-9  # a step shorter than this changes nothing
SLOW = 1e-2  # a point whose step is longer is no slow point
SAME = 1e-5  # points this near are one
DAMPING = (1e-3, 0.3, 3.0)  # of the search at first, and its factors after a good and a bad step


class Mode(NamedTuple):
    """A mode of a circuit near a point.

    :param multiplier: the eigenvalue: by what the mode is multiplied in a step
    :param sensor: the number of the observation that drives it most
    :param neurons: the numbers of the neurons that take part in it most, the first the most
    """

    multiplier: complex
    sensor: int
    neurons: tuple[int, ...]

    @property
    def time_constant(self) -> float:
        """The steps in which it shrinks to 1/e; infinite if it does not shrink."""
        size = abs(self.multiplier)
        return math.inf if size >= 1 else 0.0 if size == 0 else -1 / math.log(size)

    @property
    def period(self) -> float:
        """The steps of an oscillation; infinite if it does not oscillate."""
        angle = abs(math.atan2(self.multiplier.imag, self.multiplier.real))
        return math.inf if angle < 1e-12 else 2 * math.pi / angle


class HeldPoint(NamedTuple):
    """A fixed point, or a slow one.

    :param neurons: the neurons' states, (N,)
    :param speed: how far a step moves them; below 1e-9 at a fixed point
    :param modes: the modes, the slowest first
    """

    neurons: Array
    speed: float
    modes: tuple[Mode, ...]

    @property
    def is_fixed(self) -> bool:
        """Whether a step changes nothing."""
        return self.speed < FIXED

    @property
    def attracts(self) -> bool:
        """Whether all near states lead to it."""
        return self.is_fixed and all(abs(mode.multiplier) < 1 for mode in self.modes)


def held_points(
    loop: ClosedLoop, observations: Array, starts: Array, spreads: Array | None = None
) -> list[list[HeldPoint]]:
    """Returns the points for each of several observations, each held for ever; fixed points first.

    :param loop: an agent with a memory, in its body
    :param observations: (K, n)
    :param starts: states of the neurons from which points are looked for, (S, N)
    :param spreads: the standard deviation of each observation, in whose units what drives a mode is compared, (n,)
    """
    units = np.ones(observations.shape[1]) if spreads is None else spreads
    found = []
    for observation in np.asarray(observations, np.float64):
        states, speeds = searched(loop, observation, np.asarray(starts, np.float64))
        points: list[HeldPoint] = []
        for k in np.argsort(speeds):
            near = [np.abs(states[k] - one.neurons).max() < SAME for one in points]
            if speeds[k] < SLOW and not any(near):
                points.append(HeldPoint(states[k], float(speeds[k]), modes_at(loop, observation, states[k], units)))
        found.append(points)
    return found


def searched(loop: ClosedLoop, observation: Array, states: Array) -> tuple[Array, Array]:
    """Returns the states (S, N) at which steps are shortest, each near one of the starts, and how long these are."""
    states = states.copy()
    missed = stepped(loop, observation, states) - states
    damping = np.full(len(states), DAMPING[0])
    for _ in range(ROUNDS):
        going = np.flatnonzero((np.linalg.norm(missed, axis=1) > FIXED / 100) & (damping < 1e6))
        if not len(going):
            break
        matrix = slopes(lambda rows: stepped(loop, observation, rows), states[going]) - np.eye(states.shape[1])
        turned = matrix.transpose(0, 2, 1)
        square = turned @ matrix + damping[going, None, None] * np.eye(states.shape[1])
        tried = states[going] - np.linalg.solve(square, turned @ missed[going, :, None])[:, :, 0]
        after = stepped(loop, observation, tried) - tried
        better = np.linalg.norm(after, axis=1) < np.linalg.norm(missed[going], axis=1)
        states[going[better]], missed[going[better]] = tried[better], after[better]
        damping[going] *= np.where(better, DAMPING[1], DAMPING[2])
    return states, np.linalg.norm(missed, axis=1)


def stepped(loop: ClosedLoop, observation: Array, states: Array) -> Array:
    """Returns the neurons after a step, (S, N)."""
    return loop.act(np.broadcast_to(observation, (len(states), len(observation))), states)[1]


def modes_at(loop: ClosedLoop, observation: Array, state: Array, units: Array) -> tuple[Mode, ...]:
    """Returns the modes at a state, the slowest first; of two that are conjugate, one."""
    matrix = slopes(lambda rows: stepped(loop, observation, rows), state[None])[0]
    held = np.broadcast_to(state, (2 * len(observation), len(state)))
    drives = slopes(lambda rows: loop.act(rows, held)[1], observation[None])[0] * units  # (N, n)
    values, right = np.linalg.eig(matrix)
    left = np.linalg.pinv(right)
    modes = []
    for k in np.argsort(-np.abs(values)):
        if values[k].imag < 0:
            continue
        share = np.abs(right[:, k])
        modes.append(Mode(complex(values[k]), int(np.abs(left[k] @ drives).argmax()), tuple(np.argsort(-share)[:3])))
    return tuple(modes)


def counts(points: Sequence[HeldPoint]) -> tuple[int, int, int]:
    """Returns how many points attract, how many fixed points do not, and how many are slow."""
    attract = sum(point.attracts for point in points)
    return attract, sum(point.is_fixed for point in points) - attract, sum(not point.is_fixed for point in points)
