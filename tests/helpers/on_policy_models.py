"""Small models of recurrent PPO and A2C in environments whose every number can be predicted."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.memory_tasks import Steps
from ncp_control.rl import RecurrentA2C, RecurrentPPO
from ncp_control.wiring import AutoNCP

SPACES = [
    gym.spaces.Box(-0.5, 1.0, (2,), np.float32),
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(3),
]
CRITICS = ["circuit", "lstm", "mlp", "linear", "shared"]
WIRING = AutoNCP(9, 3)


def envs(space: Any = None, as_dict: bool = False) -> DummyVecEnv:
    return DummyVecEnv([partial(Steps, i, lengths, space, as_dict) for i, lengths in enumerate([(5, -3), (7,)])])


def build(env: Any = None, kind: Any = RecurrentPPO, policy: Any = "NCPPolicy", **settings: Any) -> Any:
    """Makes a small model; settings that are arguments of the policy go there, all others to the algorithm."""
    of_algorithm = {
        key: settings.pop(key)
        for key in list(settings)
        if key not in {"wiring", "cell", "cell_kwargs", "critic", "critic_units", "head", "critic_lr_scale"}
        and key not in {"net_arch", "share_features_extractor", "features_extractor_class", "squash_output"}
    }
    given = {"n_steps": 8, "sequence": 4, **({} if kind is RecurrentA2C else {"batch_size": 8, "n_epochs": 2})}
    policy_kwargs = {"wiring": WIRING, "critic_units": 5, **settings}
    return kind(
        policy, envs() if env is None else env, policy_kwargs=policy_kwargs, device="cpu",
        **{**given, "seed": 0, **of_algorithm},
    )  # fmt: skip
