"""The return of a policy over whole episodes, several of them side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from ncp_control.data.collection import spawned_seed
from ncp_control.data.environments import check_policy
from ncp_control.data.normalizing import normalizer_of
from ncp_control.support.progress import tracked

GROUP = 16  # episodes that one call of the policy acts for


class Episodes(NamedTuple):
    """The returns and the lengths of episodes, in their order."""

    returns: list[float]
    lengths: list[int]


def evaluate(
    policy: Any,
    make: Callable[[], gym.Env[Any, Any]],
    episodes: int = 20,
    seed: int = 0,
    deterministic: bool = True,
    progress: bool = False,
) -> Episodes:
    """Runs a policy for whole episodes, each from a seed of its own.

    :param policy: with Stable-Baselines3's `predict`; it sees observations as the environment shows them, or as the
        `VecNormalize` that it was trained under makes them
    :param make: makes an environment
    :param episodes: how many
    :param seed: everything random follows from it
    :param deterministic: take the mode of the policy, rather than a sample
    :param progress: show a progress bar on stderr
    """
    if episodes < 1:
        raise ValueError(f"at least one episode makes an evaluation, got {episodes}")
    envs = [make() for _ in range(min(GROUP, episodes))]
    try:
        check_policy(policy, envs[0])
        returns, lengths = np.zeros(episodes), np.zeros(episodes, dtype=int)
        with tracked("evaluating", episodes, shown=progress) as tracker, torch.random.fork_rng(devices=[]):
            for first in range(0, episodes, GROUP):
                group = range(first, min(first + GROUP, episodes))
                torch.manual_seed(spawned_seed(seed, first))
                found = _run(policy, envs[: len(group)], [spawned_seed(seed, k) for k in group], deterministic)
                returns[group], lengths[group] = found
                tracker.advance(len(group), int(lengths[group].sum()))
    finally:
        for env in envs:
            env.close()
    return Episodes(returns.tolist(), lengths.tolist())


def _run(policy: Any, envs: list[Any], seeds: list[int], deterministic: bool) -> tuple[Any, Any]:
    """Returns and lengths of an episode in every environment; one that has ended stays in the batch as it was."""
    seen = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    totals, lengths = np.zeros(len(envs)), np.zeros(len(envs), dtype=int)
    alive, state, starts = list(range(len(envs))), None, np.ones(len(envs), dtype=bool)
    normalize = normalizer_of(policy)
    while alive:
        actions, state = policy.predict(normalize(_batch(seen)), state, starts, deterministic=deterministic)
        starts = np.zeros(len(envs), dtype=bool)
        for k in tuple(alive):
            seen[k], reward, terminated, truncated, _ = envs[k].step(actions[k])
            totals[k] += float(reward)
            lengths[k] += 1
            if terminated or truncated:
                alive.remove(k)
    return totals, lengths


def _batch(seen: list[Any]) -> Any:
    """Observations (B, ...), or a dictionary of them."""
    if isinstance(seen[0], dict):
        return {key: np.stack([one[key] for one in seen]) for key in seen[0]}
    return np.stack(seen)
