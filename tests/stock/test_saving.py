"""Saved models, parameters, optimizers and replay buffers of every algorithm."""

from __future__ import annotations

import io
import json
import zipfile
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from helpers.stock_models import OFF_POLICY, ON_POLICY, Anything, build, copies, of_all, of_recurrent
from helpers.weights import assert_same, moved, weights

WIDE = spaces.Box(-1.0, 1.0, (3,), np.float32)


def actions_of(model: Any) -> Any:
    model.set_random_seed(5)
    model.observation_space.seed(5)
    seen = model.observation_space.sample() if model.env is None else model.env.reset()
    return model.predict(seen, deterministic=True)[0]


@of_all
def test_a_zip_keeps_weights_and_optimizers_and_training_goes_on(kind: Any, tmp_path: Any) -> None:
    model = build(kind, learning_rate=lambda left: 1e-3 * left).learn(48)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model.zip", env=copies(kind), device="cpu")
    assert_same(weights(model), weights(loaded))
    for name, saved in model.get_parameters().items():
        if "optimizer" in name:
            found = loaded.get_parameters()[name]
            assert [len(group["params"]) for group in found["param_groups"]] == [
                len(group["params"]) for group in saved["param_groups"]
            ]
            assert found["state"].keys() == saved["state"].keys()
    np.testing.assert_array_equal(actions_of(model), actions_of(loaded))
    before = weights(loaded)
    loaded.learn(48, reset_num_timesteps=False)
    assert loaded.num_timesteps == 96
    assert moved(before, weights(loaded))


@of_recurrent
def test_a_zip_may_leave_entries_out_and_go_through_memory(kind: Any, tmp_path: Any) -> None:
    model = build(kind, learning_rate=1e-3)
    model.save(tmp_path / "model", exclude=["learning_rate"])
    assert "learning_rate" not in json.loads(zipfile.ZipFile(tmp_path / "model.zip").read("data"))
    assert kind.load(tmp_path / "model", device="cpu", learning_rate=0.5).lr_schedule(1) == 0.5
    model.save(tmp_path / "whole", include=["sequence"])
    changed = kind.load(tmp_path / "whole", device="cpu", custom_objects={"learning_rate": 0.25})
    assert changed.learning_rate == 0.25
    assert changed.sequence == model.sequence
    assert {"data", "policy.pth", "pytorch_variables.pth"} <= set(zipfile.ZipFile(tmp_path / "whole.zip").namelist())
    stream = io.BytesIO()
    model.save(stream)
    stream.seek(0)
    assert_same(weights(model), weights(kind.load(stream, device="cpu")))


@of_recurrent
def test_parameters_are_read_and_set(kind: Any) -> None:
    first, second = build(kind, seed=0), build(kind, seed=1)
    given = deepcopy(first.get_parameters())
    second.set_parameters(given)
    assert_same(weights(first), weights(second))
    with pytest.raises(ValueError, match="wrong"):
        second.set_parameters({"wrong": {}})
    missing = dict(given)
    missing.pop("policy")
    with pytest.raises(ValueError, match="policy"):
        second.set_parameters(missing, exact_match=True)
    second.set_parameters(missing, exact_match=False)


@of_recurrent
def test_a_loaded_model_takes_other_environments_of_the_same_spaces_only(kind: Any, tmp_path: Any) -> None:
    model = build(kind).learn(16)
    model.save(tmp_path / "model")
    alone = kind.load(tmp_path / "model", device="cpu")
    alone.set_env(copies(kind, 2))
    assert alone.learn(16).num_timesteps == 16
    assert kind.load(tmp_path / "model", env=copies(kind, 3), device="cpu").learn(24).n_envs == 3
    assert kind.load(tmp_path / "model", env=Anything(), device="cpu").learn(16).n_envs == 1
    with pytest.raises(ValueError, match="spaces do not match"):
        kind.load(tmp_path / "model", env=copies(kind, 2, partial(Anything, WIDE)), device="cpu")
    with pytest.raises(ValueError, match="policy kwargs"):
        kind.load(tmp_path / "model", policy_kwargs={"cell": "cfc"}, device="cpu")


@of_recurrent
def test_a_policy_is_saved_by_itself_and_as_a_vector(kind: Any, tmp_path: Any) -> None:
    model = build(kind).learn(16)
    model.policy.save(tmp_path / "policy")
    loaded = type(model.policy).load(tmp_path / "policy", device="cpu")
    seen = np.array([[0.5, -0.5]], np.float32)
    np.testing.assert_array_equal(
        model.predict(seen, deterministic=True)[0], loaded.predict(seen, deterministic=True)[0]
    )
    vector = model.policy.parameters_to_vector()
    model.policy.load_from_vector(vector * 2)
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), vector * 2)


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_a_replay_buffer_is_saved_and_goes_on(kind: Any, tmp_path: Any) -> None:
    model = build(kind).learn(40)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = kind.load(tmp_path / "model", env=copies(kind), device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.replay_buffer.size() == model.replay_buffer.size() == 20
    np.testing.assert_array_equal(loaded.replay_buffer.observations, model.replay_buffer.observations)
    loaded.learn(20, reset_num_timesteps=False)
    assert loaded.replay_buffer.size() == 30


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_a_replay_buffer_of_another_model_is_refused_and_the_own_one_stays(kind: Any, tmp_path: Any) -> None:
    others = {
        "steps of 3 environments side by side, and this model has 2": copies(kind, 3),
        r"the observation_space Box.*3,.*, and this model has Box": copies(kind, 2, partial(Anything, WIDE)),
        r"the action_space Box.*3,.*, and this model has Box": copies(kind, 2, partial(Anything, actions=WIDE)),
    }
    model = build(kind).learn(20)
    own = model.replay_buffer
    for message, env in others.items():
        build(kind, env).learn(20).save_replay_buffer(tmp_path / "other")
        with pytest.raises(ValueError, match=message) as caught:
            model.load_replay_buffer(tmp_path / "other")
        assert "\n" not in str(caught.value)
    assert model.replay_buffer is own
    model.learn(20, reset_num_timesteps=False)


@pytest.mark.system
@of_recurrent
def test_the_same_seed_gives_the_same_model_and_another_seed_another(kind: Any) -> None:
    first, again, other = (build(kind, seed=seed).learn(40) for seed in (7, 7, 8))
    assert_same(weights(first), weights(again))
    assert moved(weights(first), weights(other))
    np.testing.assert_array_equal(actions_of(first), actions_of(again))


@of_recurrent
def test_optimizers_and_schedules_may_be_chosen(kind: Any) -> None:
    chosen = {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.5, "eps": 1e-4}}
    model = build(kind, policy_kwargs=chosen, learning_rate=lambda left: 1e-2 * left)
    optimizers = [model.policy.optimizer] if kind in ON_POLICY else [model.actor.optimizer, model.critic.optimizer]
    assert all(type(optimizer) is torch.optim.AdamW for optimizer in optimizers)
    assert all(group["weight_decay"] == 0.5 for optimizer in optimizers for group in optimizer.param_groups)
    model.learn(64)
    assert all(group["lr"] < 9e-3 for optimizer in optimizers for group in optimizer.param_groups)


def test_environments_by_name_are_made_again(tmp_path: Any) -> None:
    model = build(ON_POLICY[0], "CartPole-v1").learn(16)
    model.save(tmp_path / "model")
    loaded = ON_POLICY[0].load(tmp_path / "model", env=gym.make("CartPole-v1"), device="cpu")
    loaded.learn(16)
