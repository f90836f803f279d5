"""Copies and pickles of policies that have acted: they act alike, and share no weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from ncp_control.rl import RecurrentPPO, load_policy, save_policy

WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
}


def trained(algorithm: str, env: str) -> Any:
    if algorithm == "PPO":
        return PPO("MlpPolicy", env, device="cpu", n_steps=16, batch_size=16).learn(16)
    kwargs = {"wiring": 6}
    return RecurrentPPO("NCPPolicy", env, device="cpu", n_steps=16, batch_size=16, policy_kwargs=kwargs).learn(32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("algorithm", ["PPO", "RecurrentPPO"])
@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_copy_acts_alike_and_is_apart(is_loaded: bool, algorithm: str, env: str, way: str, tmp_path: Path) -> None:
    model = trained(algorithm, env)
    save_policy(model, tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors") if is_loaded else model.policy
    made = gym.make(env)
    seen = np.stack([made.reset(seed=k)[0] for k in range(20)])

    def actions(one: Any) -> Any:
        return one.predict(seen, None, np.ones(len(seen), bool), deterministic=True)[0]

    before = actions(policy)
    other = WAYS[way](policy)
    np.testing.assert_array_equal(actions(other), before)
    changed = other.policy if is_loaded else other
    with torch.no_grad():
        for parameter in changed.action_net.parameters():
            parameter.copy_(-parameter)
    assert (actions(other) != before).any()
    np.testing.assert_array_equal(actions(policy), before)


def test_a_copy_of_a_loaded_policy_follows_its_weights_like_the_original(tmp_path: Path) -> None:
    """A shallow copy shares the policy, as Python's copies do."""
    save_policy(trained("PPO", "Pendulum-v1"), tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    other = copy.copy(policy)
    seen = np.ones((2, 3), np.float32)
    with torch.no_grad():
        policy.policy.action_net.bias.fill_(0.25)
    np.testing.assert_array_equal(other.predict(seen)[0], policy.predict(seen)[0])
    assert other.sha256 == policy.sha256
