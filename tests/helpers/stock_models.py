"""Small models of every algorithm: the recurrent ones, and Stable-Baselines3's own with a circuit as the extractor."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv

from ncp_control.rl import NCPExtractor, RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3
from ncp_control.wiring import AutoNCP
from ncp_envs import History

RECURRENT = [RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3]
ON_POLICY = [RecurrentPPO, RecurrentA2C]
OFF_POLICY = [RecurrentSAC, RecurrentTD3]
STOCK = [PPO, A2C, SAC, TD3, DQN]
WIRING = AutoNCP(8, 2)
VECTOR = spaces.Box(-1.0, 1.0, (2,), np.float32)
of_recurrent = pytest.mark.parametrize("kind", RECURRENT)
of_all = pytest.mark.parametrize("kind", [*RECURRENT, *STOCK], ids=lambda kind: kind.__name__)
SETTINGS: dict[Any, dict[str, Any]] = {
    RecurrentPPO: {"n_steps": 8, "sequence": 4, "batch_size": 8, "n_epochs": 1},
    RecurrentA2C: {"n_steps": 8, "sequence": 4},
    PPO: {"n_steps": 8, "batch_size": 8, "n_epochs": 1},
    A2C: {"n_steps": 8},
    **{kind: {"sequence": 4, "burn_in": 2, "learning_starts": 12, "batch_size": 8} for kind in OFF_POLICY},
    **{kind: {"learning_starts": 12, "batch_size": 8} for kind in (SAC, TD3, DQN)},
}


class Anything(gym.Env[Any, Any]):
    """Draws observations from a space, checks every action, and ends each episode after five steps.

    :param observations: the observation space
    :param actions: the action space
    """

    def __init__(self, observations: spaces.Space[Any] = VECTOR, actions: spaces.Space[Any] = VECTOR) -> None:
        # Copies, because a space has a generator of its own, which no two of them should share.
        self.observation_space, self.action_space = copy.deepcopy(observations), copy.deepcopy(actions)
        self.observation_space.seed(int(np.random.randint(2**31)))  # for a first reset without a seed
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space, f"{action} is not in {self.action_space}"
        self._step += 1
        return self.observation_space.sample(), float(self._step), self._step == 5, False, {}


def fit_env(kind: Any, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Returns an environment as an algorithm reads it: the stock ones read a window of observations."""
    return env if kind in RECURRENT else History(env, 4)


def copies(kind: Any, number: int = 2, make: Callable[[], Any] | None = None) -> DummyVecEnv:
    """Makes several environments for an algorithm; DQN gets discrete actions unless `make` makes the environments."""
    if make is None:
        make = partial(Anything, actions=spaces.Discrete(3)) if kind is DQN else Anything
    return DummyVecEnv([lambda: fit_env(kind, make()) for _ in range(number)])


def build(kind: Any, env: Any = None, policy_kwargs: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Makes a small model of any algorithm.

    :param kind: the algorithm
    :param env: an environment that `fit_env` has made fit; None makes two
    :param policy_kwargs: further arguments of the policy
    :param settings: further arguments of the algorithm
    """
    if kind in RECURRENT:
        given: dict[str, Any] = {"wiring": WIRING, "cell": "cfc"}
        given |= {"net_arch": {"pi": [], "qf": [8]}} if kind in OFF_POLICY else {}
    else:
        extractor = {"wiring": WIRING, "cell": "cfc"}
        given = {"features_extractor_class": NCPExtractor, "features_extractor_kwargs": extractor, "net_arch": [8]}
    is_off_policy = kind in (*OFF_POLICY, SAC, TD3, DQN)
    own = {**SETTINGS[kind], **({"buffer_size": 200} if is_off_policy else {}), "seed": 0, "device": "cpu", **settings}
    return kind(
        "NCPPolicy" if kind in RECURRENT else "MultiInputPolicy",
        copies(kind) if env is None else env,
        policy_kwargs={**given, **(policy_kwargs or {})},
        **own,
    )
