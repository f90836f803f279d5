"""Reference scores: the mean returns of random actions and of an expert, between which returns are normalised."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.collect import collect
from ncp_control.data.collection import remove_finished
from ncp_control.data.rollouts import Rollouts

ENDS = ("random", "expert")


@dataclass(frozen=True)
class References:
    """The two ends of a scale of returns, which is 0 at random actions and 1 at the expert.

    :param random: the mean return of uniformly random actions
    :param expert: the mean return of the expert without random actions
    :param episodes: the number of episodes of each
    :param seed: the seed of both
    """

    random: float
    expert: float
    episodes: int
    seed: int

    def __post_init__(self) -> None:
        if not self.expert > self.random:
            raise ValueError(
                f"over {self.episodes} episodes the expert's mean return is {self.expert:,.1f}, which is not above "
                f"{self.random:,.1f}, that of random actions, so there is no scale of returns: train the expert longer"
            )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return asdict(self)


def measure_references(
    expert: Any,
    env: str | EnvSpec | gym.Env[Any, Any],
    episodes: int = 100,
    seed: int = 0,
    workers: int = 1,
    group: int = 16,
    keep: Path | None = None,
    progress: bool = True,
) -> References:
    """Measures the mean return of uniformly random actions and that of an expert, each over whole episodes.

    Example::

        references = measure_references(load_policy("best.safetensors"), "HalfCheetah-v5")

    :param expert: the policy, as `collect` takes it
    :param env: the environment, as `collect` takes it
    :param episodes: the number of episodes of each
    :param seed: the seed of everything random
    :param workers: the number of processes; the result does not depend on it
    :param group: the number of episodes that one call of a policy acts for; the result depends on it
    :param keep: a folder for finished episodes, so that an interrupted measurement goes on from them; `forget_episodes`
        removes it
    :param progress: show progress bars on stderr
    """
    means = {}
    for name, policy in zip(ENDS, ("random", expert), strict=True):
        found = collect(
            policy,
            env,
            episodes,
            random_action_fraction=0.0,
            seed=seed,
            workers=workers,
            group=group,
            keep=None if keep is None else keep / name,
            resume=keep is not None,
            progress=progress,
        )
        means[name] = float(np.mean([rollout.total_reward for rollout in found]))
    return References(**means, episodes=episodes, seed=seed)


def references_in(rollouts: Rollouts) -> References:
    """Returns the reference scores that a dataset of a level was made with."""
    try:
        return References(**rollouts.about["references"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{rollouts.about.get('source')} does not say its reference scores: remove it") from error


def forget_episodes(keep: Path) -> None:
    """Removes the episodes that `measure_references` has kept."""
    for name in ENDS:
        if (keep / name).exists():
            remove_finished(keep / name)
    if keep.exists():
        keep.rmdir()
