"""Where the states of a circuit can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.intervals import Interval, between
from ncp_control.neurons.ranges import Known

MOST_ROUNDS = 1000
SETTLED = 1e-7  # a round that shrinks no interval by more than this share of its width is the last one


def reachable(known: Known, features: Interval) -> Interval:
    """Returns bounds of every state that the cell can reach from zero while it reads `features`, (N,).

    It begins with bounds that hold for any input, and makes them smaller round by round: while all states are in X,
    none leaves the hull of zero and `known.settled(X)`, which is where they then are. In a circuit without cycles this
    ends after as many rounds as the circuit is deep; every round's result holds for all states that are numbers.

    :param features: bounds of what the cell reads, (F,)
    """
    states, zero = known.outer(), between(0.0, 0.0, known.size)
    for _ in range(MOST_ROUNDS):
        smaller = known.settled(states, features).hull(zero).within(states)
        with np.errstate(invalid="ignore"):
            moved = [smaller.low - states.low, states.high - smaller.high]
            shrunk = np.nan_to_num(moved, nan=0.0, posinf=np.inf).max(axis=0)
        states = smaller
        if not (shrunk > SETTLED * np.nan_to_num(states.width, posinf=0.0)).any():
            break
    return states


def of_numbers(known: Known, states: Interval, features: Interval) -> Interval:
    """Returns the bounds of the states that are surely numbers, and infinite ones for those that can become NaN.

    These are all that overflow, and all behind them: even a synapse of weight zero passes NaN on.

    :param states: what `reachable` returned
    :param features: bounds of what the cell reads, (F,)
    """
    numbers = known.settled(states, features).is_finite | known.stays_finite
    return states.where(~behind(known, ~numbers))


def behind(known: Known, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns the chosen numbers of the state and all that synapses carry them to, (N,)."""
    if not known.has_neurons:  # every number can depend on every other one
        return np.full(known.size, bool(chosen.any()))
    synapses, gaps = known.cell.wiring.synapses, known.cell.wiring.gap_junctions
    source = np.concatenate([synapses.source, gaps[:, 0], gaps[:, 1]])
    target = np.concatenate([synapses.target, gaps[:, 1], gaps[:, 0]])
    found: NDArray[np.bool_] = chosen.copy()
    count = 0
    while found.sum() > count:
        count = int(found.sum())
        found[target[found[source]]] = True
    return found
