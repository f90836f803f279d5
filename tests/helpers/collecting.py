"""What tests of collecting share: a short environment, two policies, and a comparison of rollouts."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.data import Rollouts


def short(env: str = "Pendulum-v1", steps: int = 20) -> EnvSpec:
    """The spec of an environment with short episodes."""
    spec = gym.make(env, max_episode_steps=steps).spec
    assert spec is not None
    return spec


def still(observations: Any) -> Any:
    """A policy that always gives the same action, which a random action never equals."""
    return np.full((len(observations), 1), 0.125, dtype=np.float32)


def steering(observations: Any) -> Any:
    """A policy that pushes against what it sees."""
    return np.clip(observations[:, 1:2], -2, 2)


def same(one: Rollouts, other: Rollouts) -> bool:
    """Whether two sets of rollouts are equal bit for bit."""
    keys = ("observations", "actions", "rewards", "is_random")
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, key), getattr(b, key)) and a.seed == b.seed
        for a, b in zip(one, other, strict=True)
        for key in keys
    )
