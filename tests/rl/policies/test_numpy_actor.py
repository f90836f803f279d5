"""The NumPy actor of a plain policy gives what the policy gives, and other policies have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO, SAC

from ncp_control.rl import RecurrentPPO
from ncp_control.rl.policies.numpy_actor import numpy_actor


def policy(kind: Any = PPO, env: str = "Pendulum-v1", name: str = "MlpPolicy", **settings: Any) -> Any:
    return kind(name, env, device="cpu", seed=0, policy_kwargs=settings).policy


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


def test_other_policies_have_none() -> None:
    assert numpy_actor(policy(env="CartPole-v1")) is None
    assert numpy_actor(policy(SAC)) is None
    assert numpy_actor(policy(activation_fn=torch.nn.ELU)) is None
    assert numpy_actor(policy(RecurrentPPO, name="NCPPolicy", wiring=4)) is None
