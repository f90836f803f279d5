"""Recurrent PPO and A2C with circuits, as a user of Stable-Baselines3 meets them."""

from __future__ import annotations

import io
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import RecurrentPPO as ContribRecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from helpers.memory_tasks import Recall
from helpers.on_policy_models import CRITICS, SPACES, WIRING, build, envs
from helpers.weights import assert_same, moved, weights
from ncp_control.rl import SAC, RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3
from ncp_control.rl.policies.circuit import Circuit


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_the_same_seed_gives_the_same_weights(kind: Any) -> None:
    first, again, other = (build(kind=kind, seed=seed).learn(64) for seed in (3, 3, 4))
    assert_same(weights(first), weights(again))
    assert moved(weights(first), weights(other))


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
@pytest.mark.parametrize("critic", CRITICS)
def test_a_saved_model_continues_as_if_it_had_not_stopped(critic: str, kind: Any, tmp_path: Any) -> None:
    """Stable-Baselines3 saves neither environments nor generators, so both get new environments and a seed."""
    model = build(kind=kind, critic=critic, critic_lr_scale=0.5)
    model.learn(64)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model", env=envs(), device="cpu")
    assert_same(weights(model), weights(loaded))
    for going_on in (model, loaded):
        going_on.set_env(envs(), force_reset=True)
        going_on.set_random_seed(7)
        going_on.learn(64, reset_num_timesteps=False)
        assert going_on.num_timesteps == 128
    assert_same(weights(model), weights(loaded))


def test_a_saved_model_keeps_how_it_was_made(tmp_path: Any) -> None:
    model = build(cell="cfc", critic="lstm", critic_lr_scale=0.25, sequence=2, net_arch={"pi": [6], "vf": [7]})
    model.learn(16)
    model.save(tmp_path / "model")
    loaded = RecurrentPPO.load(tmp_path / "model", env=envs(), device="cpu")
    assert loaded.sequence == loaded.rollout_buffer.sequence == 2
    cell, critic_cell = loaded.policy.lstm_actor.cell, loaded.policy.lstm_critic.cell
    assert (type(cell).__name__, type(critic_cell).__name__) == ("CfC", "LSTM")
    assert cell.wiring == model.policy.lstm_actor.cell.wiring
    groups, kept = model.policy.optimizer.param_groups, loaded.policy.optimizer.param_groups
    assert [group.get("lr_scale") for group in kept] == [group.get("lr_scale") for group in groups] == [None, 0.25]
    assert [group["lr"] for group in kept] == [group["lr"] for group in groups]


def test_callbacks_evaluation_normalisation_and_tensorboard(tmp_path: Any) -> None:
    env = VecNormalize(make_vec_env(Recall, 2, seed=0))
    evaluation_env = VecNormalize(make_vec_env(Recall, 2, seed=1), training=False, norm_reward=False)
    model = build(env, tensorboard_log=str(tmp_path / "board"))
    watching = EvalCallback(evaluation_env, n_eval_episodes=4, eval_freq=8, log_path=str(tmp_path), verbose=0)
    model.learn(64, callback=CallbackList([watching, CheckpointCallback(16, str(tmp_path / "kept"))]))
    found = np.load(tmp_path / "evaluations.npz")
    assert found["timesteps"].tolist() == [16, 32, 48, 64]
    assert (found["ep_lengths"] == 6).all()
    assert len(list((tmp_path / "kept").glob("*.zip"))) == 2
    assert len(list((tmp_path / "board").rglob("events.*"))) == 1
    assert env.obs_rms.count > 60
    mean, deviation = evaluate_policy(model, evaluation_env, 10, deterministic=False)
    assert 0 <= mean <= 1
    assert deviation <= 0.5


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_every_kind_of_action_trains(space: Any, as_dict: bool, kind: Any) -> None:
    model = build(envs(space, as_dict), kind)
    before = weights(model)
    model.learn(64)
    after = weights(model)
    assert all(torch.isfinite(value).all() for value in after.values())
    changed = moved(before, after)
    assert {"action_net.weight", "value_net.weight"} <= changed
    assert any("lstm_actor" in name for name in changed)
    assert any("lstm_critic" in name for name in changed)


@pytest.mark.parametrize("squash_output", [False, True])
def test_state_dependent_exploration_trains(squash_output: bool) -> None:
    space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    model = build(envs(space), use_sde=True, sde_sample_freq=4, squash_output=squash_output)
    before = weights(model)
    model.learn(64)
    assert {"action_net.weight", "log_std"} <= moved(before, weights(model))


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_the_log_of_tensorboard_is_named_after_the_algorithm(kind: Any, tmp_path: Any) -> None:
    model = kind("NCPPolicy", "Pendulum-v1", n_steps=8, batch_size=8, policy_kwargs={"wiring": 3},
                 tensorboard_log=str(tmp_path), device="cpu")  # fmt: skip
    assert model.learn(8) is model
    assert [path.name for path in tmp_path.iterdir()] == [f"{kind.__name__}_1"]


def test_a2c_takes_the_step_of_plain_a2c() -> None:
    model = build(kind=RecurrentA2C, ent_coef=0.1, max_grad_norm=1e9, critic="lstm")
    assert model.n_epochs == 1
    _, callback = model._setup_learn(64, None)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    (samples,) = model.rollout_buffer.get(None)
    values, log_probs, entropy = model.policy.evaluate_actions(
        samples.observations, samples.actions, samples.lstm_states, samples.episode_starts
    )
    policy_loss = -(samples.advantages * log_probs).mean()
    value_loss = ((samples.returns - values.flatten()) ** 2).mean()
    loss = policy_loss - 0.1 * entropy.mean() + 0.5 * value_loss
    expected = torch.autograd.grad(loss, list(model.policy.parameters()))
    model.train()
    assert model.logger.name_to_value["train/clip_fraction"] == 0
    assert model._n_updates == 1
    for (name, parameter), wanted in zip(model.policy.named_parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-6, msg=name)
        assert not wanted.numel() or wanted.abs().max() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": "gru"}, "unknown critic 'gru': choose one of circuit, lstm, mlp, linear, shared"),
        ({"head": "direct"}, "unknown head 'direct': choose one of linear, motor"),
        ({"cell": "lct"}, "unknown cell 'lct': choose one of LTC"),
        ({"cell": "lstm"}, "LSTM has no sparse form: give it a number of neurons"),
        ({"sequence": 0}, "a sequence is a whole number of steps, at least one, got 0"),
        ({"sequence": 2.5}, r"a sequence is a whole number of steps, at least one, got 2\.5"),
        ({"wiring": WIRING.build(7)}, "the wiring has 7 inputs, but the cell was asked for 3"),
        ({"policy": "MlpLstmPolicy"}, "unknown policy 'MlpLstmPolicy': RecurrentPPO of ncp_control runs \"NCPPolicy\""),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build(**settings)
    assert "\n" not in str(caught.value)


def test_a_policy_that_is_no_circuit_is_refused() -> None:
    with pytest.raises(TypeError, match="RecurrentPPO of ncp_control runs an NCPPolicy, not a Recurrent"):
        RecurrentPPO(RecurrentActorCriticPolicy, envs(), n_steps=8, device="cpu")


def test_the_circuits_are_where_sb3_looks_for_them() -> None:
    """They are found by `isinstance`, and in the text of a printed policy."""
    model = build(cell="ltc", critic="lstm")
    assert isinstance(model, ContribRecurrentPPO)
    assert not isinstance(model, PPO)
    assert isinstance(model.policy.lstm_actor, Circuit)
    assert "LTC" in str(model.policy)
    assert "LSTM" in str(model.policy)
    buffer = io.BytesIO()
    torch.save(model.policy.state_dict(), buffer)
    assert len(buffer.getvalue()) < 1e6


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_a_batch_size_that_leaves_a_rest_is_warned_of(kind: Any) -> None:
    sentence = (
        "a rollout of 24 steps, n_steps 12 times n_envs 2, is cut into minibatches of 20 steps and a last "
        "one of 4, whose steps count for more: choose a batch_size that divides the rollout, such as 24"
    )
    with pytest.warns(UserWarning, match=f"^{sentence}$") as caught:
        build(kind=kind, n_steps=12, batch_size=20)
    (warning,) = caught
    assert warning.filename.endswith("on_policy_models.py")  # which calls the constructor


@pytest.mark.parametrize("batch_size", [4, 8, 11, 12, 24, 25, None])
def test_equal_minibatches_are_not_warned_of(batch_size: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(n_steps=12, batch_size=batch_size)


def test_a_model_that_is_loaded_does_not_warn_again(tmp_path: Any) -> None:
    with pytest.warns(UserWarning, match="a last one of 4"):
        build(n_steps=12, batch_size=20).save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RecurrentPPO.load(tmp_path / "model", device="cpu")


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3, SAC])
def test_a_gpu_that_is_not_there_is_warned_of(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    policy, sizes = ("MlpPolicy", {"net_arch": [4]}) if kind is SAC else ("NCPPolicy", {"wiring": 4})
    small: dict[str, Any] = {"policy_kwargs": sizes}
    sentence = f"there is no GPU .* so {kind.__name__} computes on the CPU: choose device cpu, or auto"
    with pytest.warns(UserWarning, match=f"^{sentence}$") as caught:
        model = kind(policy, "Pendulum-v1", device="cuda", **small)
    (warning,) = caught
    assert warning.filename == __file__
    assert model.device == torch.device("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for device in ("cpu", "auto"):
            kind(policy, "Pendulum-v1", device=device, **small)
