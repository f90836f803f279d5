"""The returns of a policy over whole episodes, several of them side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from ncp_control.base.machine import one_thread
from ncp_control.base.progress import tracked
from ncp_control.data.batch_policies import as_batch_policy
from ncp_control.data.collection import spawned_seed
from ncp_control.data.env_specs import check_policy
from ncp_control.data.episodes import begin_episodes, run_episodes

GROUP = 16  # episodes that one call of the policy acts for


class EpisodeReturns(NamedTuple):
    """The returns and the lengths of episodes, in their order."""

    returns: list[float]
    lengths: list[int]

    def summary(self) -> dict[str, Any]:
        """Returns their number, mean, spread and ends, as JSON values."""
        return {
            "episodes": len(self.returns),
            "mean_return": float(np.mean(self.returns)),
            "std_return": float(np.std(self.returns)),
            "min_return": min(self.returns),
            "max_return": max(self.returns),
            "mean_length": float(np.mean(self.lengths)),
        }


def evaluate(
    policy: Any,
    make: Callable[[], gym.Env[Any, Any]],
    episodes: int = 20,
    seed: int = 0,
    deterministic: bool = True,
    progress: bool = False,
    performance: list[float] | None = None,
) -> EpisodeReturns:
    """Runs a policy for whole episodes, each with a seed of its own.

    :param policy: has Stable-Baselines3's `predict`, or is a function from observations (B, ...) to actions (B, ...).
        Observations are normalised first if the policy was trained under a `VecNormalize`
    :param make: makes an environment
    :param episodes: the number of episodes
    :param seed: the seed of everything random
    :param deterministic: take the policy's deterministic action rather than a sample
    :param progress: show a progress bar on stderr
    :param performance: a list to which the `performance` of every finished trial is added, where the environment's
        `info` has `new_trial`: 1 if it was right, 0 if not
    """
    per_episode = step_rewards(policy, make, episodes, seed, deterministic, progress, performance)
    # cumsum adds one reward after the other, as a running return does; np.sum adds in pairs and rounds otherwise
    return EpisodeReturns(
        [float(np.cumsum(rewards)[-1]) for rewards in per_episode], [len(rewards) for rewards in per_episode]
    )


def step_rewards(
    policy: Any,
    make: Callable[[], gym.Env[Any, Any]],
    episodes: int = 20,
    seed: int = 0,
    deterministic: bool = True,
    progress: bool = False,
    performance: list[float] | None = None,
) -> list[list[float]]:
    """Runs a policy as `evaluate` does, and returns the reward of every step of each episode."""
    if episodes < 1:
        raise ValueError(f"an evaluation needs at least one episode, got {episodes}")
    envs = [make() for _ in range(min(GROUP, episodes))]
    try:
        check_policy(policy, envs[0])
        chosen = as_batch_policy(policy, envs[0].action_space, deterministic=deterministic)
        rewards: list[list[float]] = [[] for _ in range(episodes)]
        with (
            tracked("evaluating", episodes, shown=progress) as tracker,
            torch.random.fork_rng(devices=[]),
            one_thread(),
        ):
            for first in range(0, episodes, GROUP):
                group = range(first, min(first + GROUP, episodes))
                starts = begin_episodes(envs[: len(group)], chosen, [spawned_seed(seed, k) for k in group])
                for steps in run_episodes(envs[: len(group)], chosen, [observation for observation, _ in starts]):
                    for place, reward in zip(steps.places, steps.rewards, strict=True):
                        rewards[first + place].append(float(reward))
                    if performance is not None:
                        ends, shares = steps.entry("new_trial", False), steps.entry("performance", None)
                        performance += [
                            float(share) for end, share in zip(ends, shares, strict=True) if end and share is not None
                        ]
                tracker.advance(len(group), sum(map(len, rewards[first : group.stop])))
    finally:
        for env in envs:
            env.close()
    return rewards


def __getattr__(name: str) -> Any:
    if name == "Episodes":
        warnings.warn(
            "ncp_control.rl.evaluation.Episodes is now EpisodeReturns; the old name goes with 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        return EpisodeReturns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
