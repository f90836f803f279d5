"""Rest points and cycles of the closed loop: Newton's method on its return map, and their multipliers.

A cycle of p steps is a fixed point of the map applied p times. Its multipliers are the eigenvalues of that map's
derivative: a small difference is multiplied by them in each round, so the cycle attracts if all lie inside the unit
circle. The body is observed at whole steps only. A gait whose period is no whole number of steps never returns exactly;
it runs on a closed curve, and is no cycle in this sense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.loop.closed import ClosedLoop, LoopState

Array = NDArray[Any]
LONGEST = 200  # steps of the longest cycle that is looked for
NEWTON_STEPS = 12
LONGEST_STEP = 0.5  # a longer one would lead to where the body cannot be
PATIENCE = 3  # after so many steps, a search that has not halved what it misses is given up
FAR = 1e12  # a derivative as large as this leads away
SAME = 1e-7  # states this near are the same one
CLOSED = 1e-10  # a state that returns this closely is on a cycle
TRIED = 4  # periods that are tried
NEAR = 0.1  # a cycle belongs to a trajectory that it stays this close to, relative to the trajectory's spread


class Cycle(NamedTuple):
    """A rest point, or a cycle.

    :param states: its states, one for each step of the period
    :param multipliers: the eigenvalues of the return map's derivative, the largest first, complex (D,)
    :param residual: by how much the loop misses its first state after one round
    """

    states: list[LoopState]
    multipliers: Array
    residual: float

    @property
    def period(self) -> int:
        """The number of steps in a round; 1 for a rest point."""
        return len(self.states)

    @property
    def attracts(self) -> bool:
        """Whether every small difference dies out."""
        return bool(np.abs(self.multipliers).max() < 1)


def find_cycle(loop: ClosedLoop, trajectory: Sequence[LoopState]) -> Cycle | None:
    """Returns the cycle to which a trajectory has settled; None if none is found.

    :param loop: the closed loop
    :param trajectory: states, one after another, of which the last lies near the cycle
    """
    last = trajectory[-1]
    away = np.array([loop.deviation(state, last) for state in trajectory])
    spread = max(float(np.linalg.norm(away - away.mean(axis=0), axis=1).max()), 1e-9)
    distances = np.linalg.norm(away, axis=1)[::-1]  # [p]: from the state p steps earlier
    for period in candidates(distances[: LONGEST + 1]):
        cycle = newton(loop, last, period)
        if cycle is None:
            continue
        nearest = min(float(np.linalg.norm(loop.deviation(state, last))) for state in cycle.states)
        if nearest <= NEAR * max(spread, 1e-3):
            return cycle
    return None


def candidates(distances: Array) -> list[int]:
    """Returns the periods after which a trajectory comes nearest to its last state, the most promising first.

    :param distances: between the last state and the state p steps earlier, for p = 0, 1, ...
    """
    if len(distances) < 2:
        return []
    if distances[1] <= CLOSED**0.5 or distances[1:].max() < 1e-3:
        return [1]
    inner = distances[1:-1]
    lows = 1 + np.flatnonzero((inner <= distances[:-2]) & (inner <= distances[2:]))
    # Twice the period returns as well: a shorter one that is nearly as good comes first.
    best = sorted(lows, key=lambda p: distances[p])[: 2 * TRIED]
    found = sorted(p for p in best if distances[p] <= 3 * distances[best[0]] + CLOSED**0.5)
    return [int(p) for p in [*found, *(p for p in best if p not in found)][:TRIED]]


def newton(loop: ClosedLoop, state: LoopState, period: int) -> Cycle | None:
    """Solves for a state that returns after `period` steps, from one near it; None if that does not converge.

    :param loop: the closed loop
    :param state: the first guess
    :param period: the number of steps
    """
    before = best = residual_at_first = np.inf
    for count in range(NEWTON_STEPS):
        states, matrix = around(loop, state, period)
        if len(states) <= period:
            return None
        missed = loop.deviation(states[-1], state)
        residual = float(np.linalg.norm(missed))
        residual_at_first = residual if count == 0 else residual_at_first
        if residual < CLOSED:
            for part in range(1, period):
                if period % part == 0 and np.linalg.norm(loop.deviation(states[part], state)) < SAME:
                    return newton(loop, state, part)
            values = np.linalg.eigvals(matrix)
            return Cycle(states[:-1], values[np.argsort(-np.abs(values))], residual)
        if not residual <= 10 * max(before, 1.0):
            return None
        best = min(best, residual)
        if count == PATIENCE and best > residual_at_first / 2:
            return None
        before = residual
        step = np.linalg.lstsq(np.eye(loop.size) - matrix, missed, rcond=1e-12)[0]
        state = loop.deviated(state, step * min(1.0, LONGEST_STEP / max(float(np.linalg.norm(step)), 1e-300)))
    return None


def around(loop: ClosedLoop, state: LoopState, period: int) -> tuple[list[LoopState], Array]:
    """Returns the states of one round, with the last, and the derivative of the whole round.

    The states are fewer if the episode ends before, or if they lead far away.
    """
    states, matrix = [state], np.eye(loop.size)
    for _ in range(period):
        found = loop.derivatives(states[-1])
        if found.step.ended or not np.abs(found.matrix).max() < FAR or not np.abs(matrix).max() < FAR**4:
            break
        states.append(found.step.state)
        matrix = found.matrix @ matrix
    return states, matrix
