"""A policy that is given no settings learns a task that other packages ask of their own defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.envs import IdentityEnv

from helpers.off_policy_models import build as build_off_policy
from helpers.on_policy_models import build as build_on_policy
from ncp_control.rl import RecurrentPPO
from scripts.benchmark_defaults import cartpole, identity


def test_a_policy_without_settings_learns_the_right_answers_from_one_batch() -> None:
    """Guessing among four answers has a loss of log 4 = 1.39."""
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "learning_rate": 2e-3, "seed": 0, "device": "cpu"}
    model = RecurrentPPO("NCPPolicy", IdentityEnv(4), **settings)
    policy, answers = model.policy, torch.arange(4)
    nothing = (torch.zeros(1, 4, policy.lstm_hidden_state_shape[2]),) * 2
    for _ in range(60):
        _, log_probs, _ = policy.evaluate_actions(answers, answers, RNNStates(nothing, nothing), torch.ones(4))
        policy.optimizer.zero_grad()
        (-log_probs.mean()).backward()
        policy.optimizer.step()
    assert -log_probs.mean().item() < 1.1  # over ten seeds 0.85 with a spread of 0.03


@pytest.mark.slow
def test_a_policy_without_settings_learns_to_repeat_what_it_sees() -> None:
    """Random answers score 25. Over ten seeds the score is 75 with a spread of 13, so 6.5 for the mean of four."""
    assert np.mean([identity(seed, {}) for seed in range(4)]) >= 45


@pytest.mark.slow
def test_a_policy_without_settings_balances_a_pole_without_velocities() -> None:
    assert cartpole(0, {}) >= 450


@pytest.mark.parametrize("build", [build_on_policy, build_off_policy])
@pytest.mark.parametrize("version", ["0.2.0", "today"])
def test_a_model_that_names_no_cell_loads_with_the_cell_that_it_had(build: Any, version: str, tmp_path: Any) -> None:
    """Version 0.2.0 chose an LTC, and its files name neither the cell nor the default."""
    cell = {"0.2.0": "ltc", "today": "cfc"}[version]
    model = build(cell=cell).learn(16)
    del model.policy_kwargs["cell"]
    model.save(tmp_path / "model", exclude=["default_cell"] if version == "0.2.0" else None)
    loaded = type(model).load(tmp_path / "model", device="cpu")
    weights = [one.policy.state_dict() for one in (model, loaded)]
    assert weights[0].keys() == weights[1].keys()
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    loaded.save(tmp_path / "again")
    again = type(model).load(tmp_path / "again", device="cpu").policy.state_dict()
    assert all((weights[0][name] == again[name]).all() for name in weights[0])
