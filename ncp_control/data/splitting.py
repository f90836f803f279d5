"""The rules by which rollouts are split into parts for training, validation and testing."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ncp_control.data.rollout import Rollout

# The LTC paper's traces of the half-cheetah: their names, their number, and the shape of each.
PAPER_NAME, PAPER_COUNT, PAPER_SHAPE = re.compile(r"trace_\d{4}\.npy"), 25, (1000, 17)


def is_paper_data(rollouts: Sequence[Rollout]) -> bool:
    """Whether these are the LTC paper's 25 traces, in their order."""
    names = [f"trace_{k:04d}.npy" for k in range(PAPER_COUNT)]
    return [one.name for one in rollouts] == names and all(map(is_of_paper, rollouts))


def is_of_paper(rollout: Rollout) -> bool:
    """Whether this is one of the LTC paper's traces, by its name and its form."""
    is_bare = rollout.actions is None and rollout.elapsed is None
    return is_bare and bool(PAPER_NAME.fullmatch(rollout.name)) and rollout.observations.shape == PAPER_SHAPE


def is_series(rollouts: Sequence[Rollout]) -> bool:
    """Whether rollouts may be pieces of one series, in the order of time: nothing says that each began anew, as the
    episodes of an environment do, which have rewards or a seed.
    """
    return not any(one.rewards is not None or one.seed is not None or is_of_paper(one) for one in rollouts)


def sizes_of(count: int) -> tuple[int, int, int]:
    """Divides a count of at least 3 into training, validation and test, 2 : 1 : 2."""
    valid = max(1, round(count / 5))
    test = min(max(1, round(2 * count / 5)), count - valid - 1)
    return count - valid - test, valid, test


def cut_in_time(count: int) -> tuple[range, range, range]:
    """Returns what comes first for training, what follows for validation, and what comes last for testing."""
    train, valid, _ = sizes_of(count)
    return range(train), range(train, train + valid), range(train + valid, count)


def cut_episodes(count: int, seed: int | None) -> tuple[list[int], list[int], list[int]]:
    """Returns the numbers of episodes for training, validation and testing, shuffled first if there is a seed.

    The first fifth is for validation and the next two fifths are for testing, as in the LTC paper.
    """
    order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
    _, valid, test = sizes_of(count)
    parts = order[valid + test :], order[:valid], order[valid : valid + test]
    train_part, valid_part, test_part = (part.tolist() for part in parts)
    return train_part, valid_part, test_part


def piece(rollout: Rollout, steps: range) -> Rollout:
    """Returns some steps of a rollout. The observation between two adjacent pieces belongs to both."""
    acts, seen = slice(steps.start, steps.stop), slice(steps.start, steps.stop + 1)
    return Rollout(
        rollout.observations[seen],
        actions=None if rollout.actions is None else rollout.actions[acts],
        rewards=None if rollout.rewards is None else rollout.rewards[acts],
        is_random=None if rollout.is_random is None else rollout.is_random[acts],
        elapsed=None if rollout.elapsed is None else rollout.elapsed[seen],
        terminated=rollout.terminated and steps.stop == rollout.steps,
        seed=None if steps.start else rollout.seed,
        name=f"{rollout.name}, steps {steps.start} to {steps.stop}",
    )
