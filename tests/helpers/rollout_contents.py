"""The content of a rollout that was read, and whether it is what was written, or at least whole."""

from __future__ import annotations

from typing import Any

import numpy as np


def content_of(found: Any) -> list[Any]:
    """Returns the arrays of a rollout, in a fixed order."""
    names = ("observations", "actions", "rewards", "is_random", "elapsed", "terminated", "seed")
    return [None if (value := getattr(found, name)) is None else np.asarray(value) for name in names]


def alike(one: list[Any], other: list[Any]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or (a.dtype == b.dtype and np.array_equal(a, b)))
        for a, b in zip(one, other, strict=True)
    )


def fine(found: Any) -> bool:
    """Whether a rollout is whole: at least two observations, all finite, and as many steps of everything else."""
    from ncp_control.data import Rollouts

    rollout = found[0] if isinstance(found, Rollouts) else found
    parts = [value for value in (rollout.actions, rollout.rewards, rollout.is_random) if value is not None]
    return bool(np.isfinite(rollout.observations).all()) and all(len(part) == rollout.steps >= 1 for part in parts)
