"""Which sensors reach which actions, with which sign, how soon, and through which neurons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.intervals import Interval
from ncp_control.neurons.ranges import Slopes

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Reach:
    """What a circuit's inputs reach.

    :param rises: whether some path from an input makes a number of the actions rise with it, (A, F)
    :param falls: whether some path makes it fall
    :param steps: after how many solver steps the first path arrives, (A, F); 0 where there is none
    :param neurons: the numbers of the state on some path, (A, F, N)
    """

    rises: Flags
    falls: Flags
    steps: NDArray[np.int64]
    neurons: Flags


def reach(slopes: Slopes, gain: Interval) -> Reach:
    """Follows all paths from inputs to actions along derivatives that are not zero everywhere.

    :param slopes: the derivatives of a solver step
    :param gain: the derivatives of the actions by the states, (A, N)
    """
    size, features = slopes.inputs.shape
    rises, falls = np.zeros((2, size, features), dtype=bool)
    first = np.full((size, features), -1)
    for step in range(1, 2 * size + 2):
        before = rises | falls
        moved = _follow(slopes.before, rises, falls)
        one, other = _ends(slopes.inputs)
        up, down = moved[0] | one, moved[1] | other
        while True:
            more = _follow(slopes.same, up, down)
            if not ((more[0] & ~up) | (more[1] & ~down)).any():
                break
            up, down = up | more[0], down | more[1]
        unchanged = not ((up & ~rises) | (down & ~falls)).any()
        rises, falls = rises | up, falls | down
        first = np.where((rises | falls) & ~before, step, first)
        if unchanged:
            break
    acted = _follow(gain, rises, falls)
    feeds = gain.size > 0
    arrives = np.where(feeds[:, :, None] & (first >= 0)[None], first[None], np.iinfo(np.int64).max).min(axis=1)
    found = acted[0] | acted[1]
    backward = reaching(slopes, feeds)
    neurons = (first >= 0).T[None] & backward[:, None]
    return Reach(*acted, np.where(found, arrives, 0), neurons & found[:, :, None])


def _ends(values: Interval) -> tuple[Flags, Flags]:
    """Returns where derivatives can be positive, and where they can be negative."""
    return values.high > 0, values.low < 0


def _follow(values: Interval, rises: Flags, falls: Flags) -> tuple[Flags, Flags]:
    """Returns what rises and what falls with the inputs one derivative further, each (T, F)."""
    up, down = (end.astype(np.float32) for end in _ends(values))
    one, other = rises.astype(np.float32), falls.astype(np.float32)
    return (up @ one + down @ other) > 0, (up @ other + down @ one) > 0


def reaching(slopes: Slopes, feeds: Flags) -> Flags:
    """Returns which numbers of the state reach each action, (A, N).

    :param feeds: which of them the action reads itself, (A, N)
    """
    edges = (slopes.before.size > 0) | (slopes.same.size > 0)
    found = feeds
    while True:
        more = found | ((found.astype(np.float32) @ edges.astype(np.float32)) > 0)
        if (more == found).all():
            return found
        found = more
