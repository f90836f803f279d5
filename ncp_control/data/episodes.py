"""Episodes side by side: one call of the policy for all of them, then one step in each environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ncp_control.data.batch_policies import BatchPolicy


class Step(NamedTuple):
    """One step in one of several environments.

    :param place: the place of the environment in their list
    :param ended: whether the episode ended, by termination or truncation
    """

    place: int
    observation: Any
    reward: Any
    terminated: bool
    ended: bool
    info: dict[str, Any]


def begin_episodes(envs: Sequence[Any], policy: BatchPolicy, seeds: Sequence[int]) -> list[tuple[Any, dict[str, Any]]]:
    """Begins an episode in each environment, each with its seed.

    :return: for each environment its first observation and info
    """
    policy.begin(seeds)
    starts = []
    for env, seed in zip(envs, seeds, strict=True):
        observation, info = env.reset(seed=seed)
        starts.append((copy_of(observation), info))
    return starts


def run_episodes(envs: Sequence[Any], policy: BatchPolicy, observations: Sequence[Any]) -> Iterator[Step]:
    """Runs the episode of each environment to its end, and yields every step.

    An episode that has ended stays in the policy's batch with its last observation, so that the rows of the others
    never move.

    :param observations: the first observation of each environment
    """
    shown, alive = list(observations), list(range(len(envs)))
    while alive:
        actions = policy.act(stack(shown))
        for k in tuple(alive):
            observation, reward, terminated, truncated, info = envs[k].step(actions[k])
            shown[k] = copy_of(observation)
            ended = bool(terminated or truncated)
            if ended:
                alive.remove(k)
            yield Step(k, shown[k], reward, bool(terminated), ended, info)


def copy_of(observation: Any) -> Any:
    """Copies an observation, since some environments write each observation into the same array."""
    if isinstance(observation, dict):
        return {key: np.array(value) for key, value in observation.items()}
    return np.array(observation)


def stack(observations: Sequence[Any]) -> Any:
    """Stacks observations to a new array (B, ...), or to a dictionary of arrays."""
    if isinstance(observations[0], dict):
        return {key: np.stack([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)
