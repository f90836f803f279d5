"""Where the states of a circuit can be."""

from __future__ import annotations

import numpy as np

from ncp_control.audit.cells.known import Known
from ncp_control.audit.intervals import Interval, between

MOST_ROUNDS = 1000
SETTLED = 1e-7  # a round that shrinks no interval by more than this share of its width is the last one


def reachable(known: Known, features: Interval) -> Interval:
    """Returns bounds of every state that the cell can reach from zero while it reads `features`, (N,).

    It begins with bounds that hold for any input, and makes them smaller round by round: while all states are in X,
    none leaves the hull of zero and `known.settled(X)`, which is where they then are. In a circuit without cycles this
    ends after as many rounds as the circuit is deep; every round's result holds.

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
