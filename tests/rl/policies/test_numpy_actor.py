"""The NumPy actor of a plain policy gives what the policy gives, and other policies have none."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import TQC, CrossQ
from stable_baselines3 import A2C, PPO, SAC, TD3

from helpers.stock_models import Anything
from ncp_control.rl import RecurrentPPO, RecurrentSAC
from ncp_control.rl.policies.numpy_actor import numpy_actor

ON_POLICY, OFF_POLICY = (PPO, A2C), (SAC, TQC, CrossQ, TD3)
# Actions with bounds of their own for every entry.
BOUNDS = spaces.Box(np.array([-2.0, 0.5, -1.0], np.float32), np.array([3.0, 0.75, 100.0], np.float32))


def policy(kind: Any = PPO, env: Any = "Pendulum-v1", name: str = "MlpPolicy", model: Any = None, **given: Any) -> Any:
    room = {} if kind in (PPO, A2C, RecurrentPPO) else {"buffer_size": 10}
    return kind(name, env, device="cpu", seed=0, policy_kwargs=given, **room, **(model or {})).policy


def drawn(rows: int, columns: int = 3, scale: float = 1.0) -> Any:
    return np.random.default_rng(rows).normal(scale=scale, size=(rows, columns)).astype(np.float32)


@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.ReLU])
def test_it_follows_the_weights_and_clips(activation: Any) -> None:
    made = policy(activation_fn=activation, net_arch=[7, 5])
    act = numpy_actor(made)
    assert act is not None
    seen = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    for factor in (1.0, 100.0, 1e4):
        with torch.no_grad():
            made.action_net.weight.mul_(factor)
        wanted, _ = made.predict(seen, deterministic=True)
        np.testing.assert_allclose(act(seen), wanted, rtol=1e-5, atol=1e-6)
    assert set(np.abs(act(seen)).ravel()) == {2.0}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("arch", [[], [7], [256, 256]], ids=str)
@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.ReLU])
@pytest.mark.parametrize("kind", [*ON_POLICY, *OFF_POLICY])
def test_it_acts_as_the_policy(kind: Any, activation: Any, arch: list[int], dtype: Any) -> None:
    """For odd numbers of rows, and for observations with more digits than the networks read."""
    env = Anything(spaces.Box(-np.inf, np.inf, (17,), dtype), BOUNDS)
    made = policy(kind, env, activation_fn=activation, net_arch=arch)
    act = numpy_actor(made)
    assert act is not None
    for rows in (1, 3, 16, 33):
        seen = drawn(rows, 17).astype(dtype)
        wanted, _ = made.predict(seen, deterministic=True)
        found = act(seen)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_it_follows_the_weights_of_a_squashed_actor_up_to_the_bounds(kind: Any) -> None:
    made = policy(kind, net_arch=[7, 5])
    act = numpy_actor(made)
    assert act is not None
    for factor in (1.0, 10.0, 1e5):
        with torch.no_grad():
            for parameter in made.actor.mu.parameters():
                parameter.mul_(factor)
        wanted, _ = made.predict(drawn(9), deterministic=True)
        np.testing.assert_allclose(act(drawn(9)), wanted, rtol=1e-5, atol=1e-5)
    assert set(np.abs(act(drawn(9))).ravel()) == {2.0}


@pytest.mark.parametrize("kind", [SAC, TQC, CrossQ])
@pytest.mark.parametrize("clip_mean", [0.0, 0.1])
def test_the_clipped_means_of_gsde(kind: Any, clip_mean: float) -> None:
    made = policy(kind, net_arch=[7], model={"use_sde": True}, clip_mean=clip_mean)
    act = numpy_actor(made)
    assert act is not None
    with torch.no_grad():
        made.actor.latent_pi[-1 if kind is CrossQ else 0].bias.fill_(0.5)
    wanted, _ = made.predict(drawn(33, scale=9.0), deterministic=True)
    np.testing.assert_allclose(act(drawn(33, scale=9.0)), wanted, rtol=1e-5, atol=1e-6)
    assert (np.abs(wanted).max() <= 2 * np.tanh(0.1) + 1e-6) == bool(clip_mean)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_running_statistics_of_crossq_are_those_of_now(batch_norm: bool) -> None:
    env = gym.make("Pendulum-v1")
    settings = {"net_arch": [8], "batch_norm": batch_norm, "batch_norm_eps": 0.1}
    model = CrossQ("MlpPolicy", env, learning_starts=10, buffer_size=100, device="cpu", seed=0, policy_kwargs=settings)
    act = numpy_actor(model.policy)
    assert act is not None
    before = act(drawn(9))
    model.learn(40)
    wanted, _ = model.policy.predict(drawn(9), deterministic=True)
    np.testing.assert_allclose(act(drawn(9)), wanted, rtol=1e-5, atol=1e-6)
    assert np.abs(wanted - before).max() > 0.01


def test_other_policies_have_none() -> None:
    assert numpy_actor(policy(env="CartPole-v1")) is None
    assert numpy_actor(policy(activation_fn=torch.nn.ELU)) is None
    assert numpy_actor(policy(SAC, activation_fn=torch.nn.ELU)) is None
    assert numpy_actor(policy(model={"use_sde": True})) is None
    assert numpy_actor(policy(RecurrentPPO, name="NCPPolicy", wiring=4)) is None
    assert numpy_actor(policy(RecurrentSAC, name="NCPPolicy", model={"sequence": 2, "burn_in": 1}, wiring=4)) is None
    both = spaces.Dict(a=spaces.Box(-1.0, 1.0, (2,)), b=spaces.Box(-1.0, 1.0, (1,)))
    assert numpy_actor(policy(TQC, Anything(both), "MultiInputPolicy")) is None
    assert numpy_actor(policy(SAC, Anything(spaces.Discrete(4)))) is None
    assert numpy_actor(policy(TD3, Anything(spaces.Box(-1.0, 1.0, (2, 2))))) is None
