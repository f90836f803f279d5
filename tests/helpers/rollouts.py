"""What tests of rollouts share: made-up traces, and a comparison of rollouts."""

from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from ncp_control.data import Rollout, Rollouts

KEYS = ("observations", "actions", "rewards", "is_random", "elapsed", "terminated", "seed")


def trace(steps: int = 6, features: int = 3, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random observations."""
    return np.random.default_rng(seed).normal(size=(steps, features))


def assert_same(one: Rollouts, other: Rollouts) -> None:
    """Everything about the rollouts is equal, arrays also in their type."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        for key in KEYS:
            assert_array_equal(getattr(a, key), getattr(b, key), strict=key not in ("terminated", "seed", "elapsed"))


def rollouts_of(*lengths: int, actions: int | None = None, elapsed: bool = False, features: int = 3) -> Rollouts:
    """Rollouts of random numbers; their lengths are counted in observations."""
    rng = np.random.default_rng(0)
    return Rollouts(
        tuple(
            Rollout(
                rng.normal(size=(length, features)),
                actions=None if actions is None else rng.normal(size=(length - 1, actions)),
                elapsed=rng.uniform(0.5, 2, size=length) if elapsed else None,
            )
            for length in lengths
        )
    )
