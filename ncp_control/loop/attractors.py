"""What an agent and its body settle to, from many starts: which attractors there are, and how many starts lead to each.

Starts that end in the same place, or move in the same way, are one group. They are compared by the means and the
standard deviations of what the agent sees, over the last half of a long run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ncp_control.loop.closed import ClosedLoop, LoopState

Array = NDArray[Any]
KEPT = 400  # of the last states of a run
SAME = 1.0  # means may differ by so many standard deviations
SPREADS = 3.0  # and these by such a factor
STILL = 1e-3  # what moves less, relative to what all runs differ by, does not move


class SettledRun(NamedTuple):
    """Where one start led.

    :param thrown: whether the body was thrown, rather than reset as at the start of an episode
    :param states: the last states, one after another
    :param observations: what the agent saw in the last half of the run, (T, n)
    :param rewards: (T,)
    :param ended: after how many steps the episode ended; None if it did not
    """

    thrown: bool
    states: list[LoopState]
    observations: Array
    rewards: Array
    ended: int | None


def settle(
    loop: ClosedLoop,
    starts: Sequence[LoopState],
    thrown: Sequence[bool],
    steps: int,
    advance: Callable[[], None] = lambda: None,
) -> list[SettledRun]:
    """Runs the closed loop from several starts, side by side.

    :param loop: the closed loop
    :param starts: the starts
    :param thrown: for each, whether the body was thrown
    :param steps: how long each runs
    :param advance: called after every step of all of them
    """
    paths: list[list[LoopState]] = [[start] for start in starts]
    seen: list[list[Array]] = [[] for _ in starts]
    rewards: list[list[float]] = [[] for _ in starts]
    ended: list[int | None] = [None] * len(starts)
    for k in range(steps):
        going = [place for place, end in enumerate(ended) if end is None]
        if not going:
            break
        for place, step in zip(going, loop.step_all([paths[place][-1] for place in going]), strict=True):
            paths[place].append(step.state)
            del paths[place][:-KEPT]
            if step.ended:
                ended[place] = k + 1
            if k >= steps // 2:
                seen[place].append(step.observation)
                rewards[place].append(step.reward)
        advance()
    width = len(loop.body.sensors)
    return [
        SettledRun(is_thrown, path, np.array(own).reshape(-1, width), np.array(gained), end)
        for is_thrown, path, own, gained, end in zip(thrown, paths, seen, rewards, ended, strict=True)
    ]


def grouped(settled: Sequence[SettledRun]) -> list[list[int]]:
    """Returns groups of runs that settled to the same; each group lists places in `settled`.

    First comes the group with the most starts of episodes. Runs whose episodes ended are one group, whatever they did
    before.
    """
    ended = [k for k, one in enumerate(settled) if one.ended is not None]
    going = [k for k, one in enumerate(settled) if one.ended is None]
    groups = [ended] if ended else []
    if going:
        means = np.array([settled[k].observations.mean(axis=0) for k in going])
        spreads = np.array([settled[k].observations.std(axis=0) for k in going])
        names = labels_of(means, spreads)
        groups += [[going[k] for k in np.flatnonzero(names == name)] for name in np.unique(names)]
    return sorted(groups, key=lambda group: (sum(not settled[k].thrown for k in group), len(group)), reverse=True)


def labels_of(means: Array, spreads: Array) -> Array:
    """Returns a number for each run; runs that can be reached over similar ones have the same.

    Two runs are similar if their means differ by at most the greater of their standard deviations, and these by at most
    a factor of 3, in every observation. What moves less than a thousandth of what the runs differ by does not move.

    :param means: of what each run saw, (S, n)
    :param spreads: the standard deviations, (S, n)
    """
    still = np.maximum(STILL * np.maximum(np.ptp(means, axis=0), spreads.max(axis=0)), 1e-9)
    spreads = np.maximum(spreads, still)
    apart = np.abs(means[:, None] - means) / np.maximum(spreads[:, None], spreads)
    wider = np.abs(np.log(spreads[:, None] / spreads))
    similar = ((apart <= SAME) & (wider <= np.log(SPREADS))).all(axis=2)
    labels: Array = connected_components(similar, directed=False)[1]
    return labels
