"""Every algorithm learns the simplest tasks, and trains with every setting that Stable-Baselines3 offers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.envs import IdentityEnv, IdentityEnvBox
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.stock_models import OFF_POLICY, ON_POLICY, build, copies, of_recurrent
from helpers.weights import moved, weights
from ncp_control.rl import RecurrentA2C, RecurrentPPO, RecurrentTD3

BRIEF: dict[Any, tuple[int, dict[str, Any]]] = {
    RecurrentPPO: (2048, {"n_steps": 128, "sequence": 16, "batch_size": 64, "n_epochs": 5, "learning_rate": 1e-2}),
    RecurrentA2C: (4000, {"n_steps": 16, "learning_rate": 1e-2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_observed_choices_are_learned(kind: Any) -> None:
    steps, settings = BRIEF[kind]
    env = DummyVecEnv([lambda: IdentityEnv(3)])
    model = build(kind, env, **settings, gamma=0.4).learn(steps)
    assert evaluate_policy(model, env, 10, warn=False)[0] > 90


@pytest.mark.parametrize("kind", ON_POLICY)
@pytest.mark.parametrize(
    ("n_steps", "sequence", "batch_size"), [(7, 64, 5), (6, 4, 1000), (5, 1, 4), (16, 16, 1), (12, 5, None), (1, 1, 2)]
)
def test_odd_numbers_of_steps_train(kind: Any, n_steps: int, sequence: int, batch_size: Any) -> None:
    model = build(kind, n_steps=n_steps, sequence=sequence, batch_size=batch_size)
    before = weights(model)
    model.learn(4 * n_steps)
    after = weights(model)
    assert moved(before, after)
    assert all(torch.isfinite(value).all() for value in after.values())
    counts = [len(batch.actions) for batch in model.rollout_buffer.get(batch_size)]
    assert sum(counts) == 2 * n_steps


@pytest.mark.parametrize(("n_steps", "batch_size", "number"), [(1, 1, 1), (1, 1, 2), (5, 3, 2), (9, 8, 1)])
def test_a_minibatch_of_one_step_is_refused_or_not_normalised(n_steps: int, batch_size: int, number: int) -> None:
    settings = {"n_steps": n_steps, "sequence": 1, "batch_size": batch_size}
    with pytest.raises(ValueError, match="is one step alone, whose advantage cannot be normalised") as caught:
        build(RecurrentPPO, copies(RecurrentPPO, number), **settings)
    assert "\n" not in str(caught.value)
    model = build(RecurrentPPO, copies(RecurrentPPO, number), **settings, normalize_advantage=False).learn(20)
    assert all(torch.isfinite(value).all() for value in weights(model).values())


@pytest.mark.parametrize("kind", ON_POLICY)
def test_limits_on_policies_settings_train(kind: Any) -> None:
    for settings in (
        {"target_kl": 1e-9, "n_epochs": 10},
        {"clip_range": lambda left: 0.2 * left, "clip_range_vf": 0.1, "ent_coef": 0.1},
        {"use_sde": True, "sde_sample_freq": 3},
        {"gae_lambda": 1.0, "gamma": 1.0, "max_grad_norm": 0.01, "vf_coef": 0.1},
    ):
        model = build(kind, **settings).learn(48)
        assert all(torch.isfinite(value).all() for value in weights(model).values()), settings
        if "target_kl" in settings:
            assert model._n_updates < 3 * 10


@pytest.mark.system
@pytest.mark.parametrize("kind", OFF_POLICY)
def test_off_policys_settings_train(kind: Any) -> None:
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(2), 0.1 * np.ones(2))
    own = [{"use_sde": True, "sde_sample_freq": 3}, {"ent_coef": 0.1}, {"target_entropy": -1.0, "ent_coef": "auto_0.1"}]
    if kind is RecurrentTD3:
        own = [{"policy_delay": 3, "target_policy_noise": 0.1, "target_noise_clip": 0.2}]
    for settings in (*own, {"action_noise": noise}, {"tau": 1.0, "gamma": 1.0}, {"policy_kwargs": {"n_critics": 1}}):
        model = build(kind, **settings).learn(32)
        assert model._n_updates > 0
        assert all(torch.isfinite(value).all() for value in weights(model).values()), settings


@of_recurrent
def test_a_deterministic_evaluation_repeats(kind: Any) -> None:
    model = build(kind).learn(16)
    env = DummyVecEnv([lambda: IdentityEnvBox()])
    found = []
    for _ in range(2):
        env.seed(3)
        found.append(evaluate_policy(build(kind, env), env, 2, warn=False))
    assert found[0] == found[1]
    assert model.num_timesteps >= 16
