"""A summary of rollouts: level, returns and scores, ranges of observations, and the share of random actions."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.minari_files import ENDS, normalized, scale_in
from ncp_control.data.rollouts import Rollouts
from ncp_control.data.scaler import std_of


def summarize(rollouts: Rollouts) -> dict[str, Any]:
    """Summarises rollouts in JSON values. An entry is None where the rollouts lack the data for it."""
    observations = np.concatenate([rollout.observations for rollout in rollouts]).astype(np.float64)
    first = rollouts[0]
    returns = None if first.rewards is None else np.array([rollout.total_reward for rollout in rollouts])
    level = rollouts.about.get("level")
    return {
        "level": None if level is None else str(level),
        "rollouts": len(rollouts),
        "steps": rollouts.steps,
        "steps_of_a_rollout": [min(r.steps for r in rollouts), max(r.steps for r in rollouts)],
        "terminated": sum(rollout.terminated for rollout in rollouts),
        "parts": None if rollouts.parts is None else dict(Counter(rollouts.parts)),
        "action_shape": None if first.actions is None else list(first.actions.shape[1:]),
        "returns": None if returns is None else spread(returns),
        "score": None if returns is None else score(returns, rollouts.about),
        "random_actions": random_actions(rollouts),
        "elapsed": elapsed(rollouts),
        "observations": [
            {"name": name, **spread(column)}
            for name, column in zip(rollouts.observation_names, observations.T, strict=True)
        ],
        "about": rollouts.about,
    }


def spread(values: NDArray[np.float64]) -> dict[str, float]:
    """Returns the mean, the standard deviation, the least and the greatest value."""
    moments = {"mean": values.mean(), "std": std_of(values), "least": values.min(), "most": values.max()}
    return {key: float(value) for key, value in moments.items()}


def score(returns: NDArray[np.float64], about: dict[str, Any]) -> dict[str, float] | None:
    """Summarises the normalised returns, with the returns that score 0 and 1; None without such reference scores."""
    scale = scale_in(about)
    if scale is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        scores = spread(normalized(returns, scale))
    return scores | dict(zip(ENDS, scale, strict=True)) if np.isfinite(list(scores.values())).all() else None


def random_actions(rollouts: Rollouts) -> dict[str, Any] | None:
    """Returns the share of random actions, with a 95 % confidence interval of their probability."""
    flags = [rollout.is_random for rollout in rollouts if rollout.is_random is not None]
    if not flags:
        return None
    count, of = int(sum(np.sum(part) for part in flags)), sum(len(part) for part in flags)
    low, high = binomial_interval(count, of)
    # bursts of random actions have no probability that one could compare with their share
    wanted = None if rollouts.about.get("bursts") else rollouts.about.get("random_action_fraction")
    return {"share": count / of, "low": low, "high": high, "count": count, "of": of, "wanted": wanted}


def binomial_interval(count: int, of: int) -> tuple[float, float]:
    """Returns Wilson's 95 % confidence interval of a probability, after `count` successes in `of` trials."""
    share, z = count / of, NormalDist().inv_cdf(0.975)
    middle, reach = share + z * z / (2 * of), z * sqrt(share * (1 - share) / of + (z / (2 * of)) ** 2)
    low, high = ((middle + side * reach) / (1 + z * z / of) for side in (-1, 1))
    return (0.0 if count == 0 else low), (1.0 if count == of else high)  # exact, without rounding


def elapsed(rollouts: Rollouts) -> dict[str, float] | None:
    """Summarises the times between observations; None where they are always the same."""
    times = [
        np.ones(rollout.steps) if rollout.elapsed is None else np.asarray(rollout.elapsed[1:], np.float64)
        for rollout in rollouts
    ]
    if all(rollout.elapsed is None for rollout in rollouts):
        return None
    return spread(np.concatenate(times))
