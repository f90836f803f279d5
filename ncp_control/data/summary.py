"""Rollouts in numbers: returns, ranges, and how many of the actions were random."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.rollouts import Rollouts

NORMAL_95 = 1.959963984540054


def summarize(rollouts: Rollouts) -> dict[str, Any]:
    """What there is to say about rollouts, as JSON values; None for what they do not have."""
    observations = np.concatenate([rollout.observations for rollout in rollouts]).astype(np.float64)
    first = rollouts[0]
    return {
        "rollouts": len(rollouts),
        "steps": rollouts.steps,
        "steps_of_a_rollout": [min(r.steps for r in rollouts), max(r.steps for r in rollouts)],
        "terminated": sum(rollout.terminated for rollout in rollouts),
        "parts": None if rollouts.parts is None else dict(Counter(rollouts.parts)),
        "action_shape": None if first.actions is None else list(first.actions.shape[1:]),
        "returns": None if first.rewards is None else spread(np.array([r.total_reward for r in rollouts])),
        "random_actions": random_actions(rollouts),
        "elapsed": elapsed(rollouts),
        "observations": [
            {"name": name, **spread(column)}
            for name, column in zip(rollouts.observation_names, observations.T, strict=True)
        ],
        "about": rollouts.about,
    }


def spread(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, standard deviation, least and most."""
    found = {"mean": values.mean(), "std": values.std(), "least": values.min(), "most": values.max()}
    return {key: float(value) for key, value in found.items()}


def random_actions(rollouts: Rollouts) -> dict[str, Any] | None:
    """How many actions were random, with an interval that holds the true share in 95 of 100 cases."""
    flags = [rollout.is_random for rollout in rollouts if rollout.is_random is not None]
    if not flags:
        return None
    count, of = int(sum(np.sum(part) for part in flags)), sum(len(part) for part in flags)
    low, high = binomial_interval(count, of)
    wanted = rollouts.about.get("random_action_fraction")
    return {"share": count / of, "low": low, "high": high, "count": count, "of": of, "wanted": wanted}


def binomial_interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of which `count` in `of` was seen."""
    share, z = count / of, NORMAL_95
    middle = share + z * z / (2 * of)
    reach = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low, high = ((middle + side * reach) / (1 + z * z / of) for side in (-1, 1))
    return (0.0 if count == 0 else low), (1.0 if count == of else high)


def elapsed(rollouts: Rollouts) -> dict[str, float] | None:
    """The times between observations, without those of the first ones; None where they are all the same."""
    times = [
        np.ones(rollout.steps) if rollout.elapsed is None else np.asarray(rollout.elapsed[1:], np.float64)
        for rollout in rollouts
    ]
    if all(rollout.elapsed is None for rollout in rollouts):
        return None
    return spread(np.concatenate(times))
