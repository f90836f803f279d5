"""Choices that are not counted from zero: the agent sees and returns the environment's own numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from helpers.stock_models import ON_POLICY, RECURRENT, Anything, build, copies
from helpers.weights import assert_same, weights
from ncp_control.rl import Controller, load_policy, save_policy

FIRSTS = {
    "one choice": (spaces.Discrete(3), spaces.Discrete(3, start=5)),
    "several": (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 3], start=[4, -1])),
}
named = pytest.mark.parametrize("name", FIRSTS)


def shift(space: Any) -> Any:
    return np.asarray(space.start)


@named
@pytest.mark.parametrize("kind", RECURRENT)
def test_observed_choices_mean_the_same_wherever_they_are_counted_from(kind: Any, name: str) -> None:
    zero, other = FIRSTS[name]
    models = [build(kind, copies(kind, 2, partial(Anything, space))).learn(40) for space in (zero, other)]
    assert_same(*(weights(model) for model in models))
    zero.seed(0)
    seen = zero.sample()
    actions = [model.predict(seen + shift(model.observation_space), deterministic=True)[0] for model in models]
    np.testing.assert_array_equal(*actions)


@named
@pytest.mark.parametrize("kind", ON_POLICY)
def test_chosen_actions_are_the_environments_own_numbers(kind: Any, name: str) -> None:
    zero, other = FIRSTS[name]
    models = [build(kind, copies(kind, 2, partial(Anything, actions=space))).learn(40) for space in (zero, other)]
    assert_same(*(weights(model) for model in models))
    kept = [model.rollout_buffer.actions for model in models]
    np.testing.assert_array_equal(kept[0] + shift(other), kept[1])
    seen = np.zeros((7, 2), np.float32)
    for deterministic in (False, True):
        found = []
        for model in models:
            torch.manual_seed(1)
            found.append(model.predict(seen, deterministic=deterministic)[0] - shift(model.action_space))
        np.testing.assert_array_equal(*found)


@named
def test_a_saved_policy_returns_the_environments_own_numbers(name: str, tmp_path: Any) -> None:
    space = FIRSTS[name][1]
    model = build(ON_POLICY[0], copies(ON_POLICY[0], 2, partial(Anything, actions=space)))
    save_policy(model, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    seen = np.full((3, 2), 0.5, np.float32)
    actions, _ = loaded.predict(seen, deterministic=True)
    assert all(action in space for action in actions)
    np.testing.assert_array_equal(actions, model.predict(seen, deterministic=True)[0])


def test_a_controller_returns_the_environments_own_numbers(tmp_path: Any) -> None:
    model = build(ON_POLICY[0], copies(ON_POLICY[0], 2, partial(Anything, actions=FIRSTS["one choice"][1])))
    save_policy(model, tmp_path / "policy.safetensors")
    controller = Controller(load_policy(tmp_path / "policy.safetensors"))
    seen = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    actions, _ = controller(torch.from_numpy(seen), controller.initial_state(20))
    np.testing.assert_array_equal(actions.numpy(), model.predict(seen, deterministic=True)[0])
