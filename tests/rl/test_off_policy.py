"""Recurrent SAC and TD3 with circuits, as a user of Stable-Baselines3 meets them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers.memory_tasks import Repeat, Steps, joined
from helpers.off_policy_models import CELLS, CRITICS, Scaled, Truth, build, envs, of_kinds
from helpers.weights import assert_same, moved, weights
from ncp_control.rl import RecurrentSAC, RecurrentTD3
from ncp_control.rl.buffers.replay import (
    SequenceReplayBuffer,
)


@of_kinds
@pytest.mark.parametrize("as_dict", [False, True])
def test_the_actor_acts_on_the_state_of_its_episode(kind: Any, as_dict: bool) -> None:
    """It does so while actions are random, past the ends of episodes, and after every kind of reset."""
    model = build(kind, envs(as_dict), gradient_steps=0, learning_starts=40)

    truth = Truth(model.actor.features_extractor, as_dict)

    class Watch(BaseCallback):
        checked = 0

        def _on_step(self) -> bool:
            seen = model._last_obs
            rows = joined({key: torch.as_tensor(value) for key, value in seen.items()} if as_dict else seen)
            for i, (environment, episode, step) in enumerate(np.asarray(rows).astype(int).tolist()):
                expected = truth(environment, episode, step)[1]
                np.testing.assert_allclose(model._last_state[0][0, i], expected, rtol=1e-4, atol=1e-5)
                self.checked += 1
            return True

    watch = Watch()
    model.learn(60, watch)
    model.learn(30, watch)  # resets
    model.learn(30, watch, reset_num_timesteps=False)  # goes on
    model.set_env(envs(as_dict))
    model.learn(30, watch, reset_num_timesteps=False)  # resets
    assert watch.checked == 150
    buffer = model.replay_buffer
    seen = buffer.observations["when"][..., 0] if as_dict else buffer.observations[..., 2]
    assert buffer.pos == 50
    np.testing.assert_array_equal(buffer.episode_starts[:50], seen[:50] == 0)
    assert buffer.episode_starts[[20, 40], :].all()  # the resets
    assert not buffer.episode_starts[30].all()
    # what follows an observation is of the same episode, whoever ended it
    following = buffer.next_observations["when"][..., 0] if as_dict else buffer.next_observations[..., 2]
    np.testing.assert_array_equal(following[:50], seen[:50] + 1)


@of_kinds
@pytest.mark.parametrize(
    ("cell", "wiring", "critic"),
    [*((*cell, "circuit") for cell in CELLS[:3]), *((*CELLS[1], critic) for critic in CRITICS[1:])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_is_trained(cell: str, wiring: Any, critic: str, kind: Any) -> None:
    model = build(kind, cell=cell, wiring=wiring, critic=critic, train_freq=2)
    before = weights(model)
    model.learn(180)
    after = weights(model)
    assert model._n_updates > 20
    assert all(torch.isfinite(value).all() for value in after.values())
    # a critic's own circuit hears of a loss through its motor neurons; all of a group need not be among them
    expected = {"actor.features_extractor.circuit", "critic.qf0", "critic.qf1", "critic_target.qf0", "actor.mu"}
    if critic not in ("mlp", "window"):
        expected |= {"critic.features_extractor.circuit", "critic_target.features_extractor.circuit"}
    expected |= {"actor_target.features_extractor.circuit"} if kind is RecurrentTD3 else {"actor.log_std"}
    found = moved(before, after)
    assert all(any(name.startswith(part) for name in found) for part in expected)
    for network in (model.actor, model.critic):
        for group in network.optimizer.param_groups:
            known = {id(parameter) for parameter in group["params"]}
            assert found & {f"{role}.{name}" for role, part in (("actor", model.actor), ("critic", model.critic))
                            for name, parameter in part.named_parameters() if id(parameter) in known}  # fmt: skip
        grouped = [id(parameter) for group in network.optimizer.param_groups for parameter in group["params"]]
        assert sorted(grouped) == sorted(id(parameter) for parameter in network.parameters())


@of_kinds
@pytest.mark.parametrize("as_dict", [False, True])
def test_a_dictionary_and_several_environments_train(kind: Any, as_dict: bool) -> None:
    for number in (1, 3):
        model = build(kind, envs(as_dict, number), features_extractor_class=Scaled, train_freq=(3, "step"))
        before = weights(model)
        model.learn(60)
        assert "actor.features_extractor.row.layer.weight" in moved(before, weights(model))
        assert "critic.features_extractor.row.layer.weight" in moved(before, weights(model))


def test_state_dependent_exploration_trains() -> None:
    model = build(use_sde=True, sde_sample_freq=4, use_sde_at_warmup=True)
    before = weights(model)
    model.learn(90)
    assert {"actor.log_std", "actor.mu.0.weight"} <= moved(before, weights(model))
    assert np.std([model.predict(np.zeros(3, np.float32))[0] for _ in range(3)], axis=0).max() < 1e-6


@of_kinds
def test_training_waits_for_a_window(kind: Any) -> None:
    model = build(kind, learning_starts=0, sequence=10, burn_in=5)
    model.learn(27)
    assert model._n_updates == 0
    model.learn(3, reset_num_timesteps=False)
    assert model._n_updates == 1


@of_kinds
def test_the_same_seed_gives_the_same_weights(kind: Any) -> None:
    first, again, other = (build(kind, seed=seed).learn(90) for seed in (3, 3, 4))
    assert_same(weights(first), weights(again))
    assert moved(weights(first), weights(other))


@of_kinds
@pytest.mark.parametrize("critic", CRITICS)
def test_a_saved_model_continues_as_if_it_had_not_stopped(critic: str, kind: Any, tmp_path: Any) -> None:
    """Stable-Baselines3 saves neither environments nor generators, so both get new environments and a seed."""
    model = build(kind, critic=critic, circuit_lr_scale=0.5)
    model.learn(90)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = kind.load(tmp_path / "model", env=envs(), device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert_same(weights(model), weights(loaded))
    for going_on in (model, loaded):
        going_on.set_env(envs(), force_reset=True)
        going_on.set_random_seed(7)
        going_on.learn(90, reset_num_timesteps=False)
        assert going_on.num_timesteps == 180
    assert_same(weights(model), weights(loaded))
    ours, theirs = model.replay_buffer, loaded.replay_buffer
    np.testing.assert_array_equal(ours.episode_starts, theirs.episode_starts)
    assert ours.episode_starts[30].all()


def test_a_loaded_model_may_continue_within_an_episode(tmp_path: Any) -> None:
    env = envs()
    model = build(env=env, gradient_steps=0)
    model.learn(60)
    model.save(tmp_path / "model")
    loaded = RecurrentSAC.load(tmp_path / "model", env=env, device="cpu", force_reset=False)
    np.testing.assert_array_equal(loaded._last_state[0], model._last_state[0])
    loaded.learn(9, reset_num_timesteps=False)
    assert loaded.replay_buffer.observations[2].tolist() == [[0, 6, 2], [1, 2, 6], [2, 0, 22]]
    expected = Truth(loaded.actor.features_extractor, False)(2, 0, 22)[1]
    np.testing.assert_allclose(loaded._last_state[0][0, 2], expected, rtol=1e-4, atol=1e-5)
    # the buffer is new, and so does not know what came before
    assert loaded.replay_buffer.episode_starts[0].all()


def test_a_saved_model_keeps_how_it_was_made_and_takes_other_environments(tmp_path: Any) -> None:
    model = build(cell="cfc", critic="lstm", circuit_lr_scale=0.25, sequence=6, burn_in=2)
    model.learn(60)
    model.save(tmp_path / "model")
    loaded = RecurrentSAC.load(tmp_path / "model", env=envs(number=2), device="cpu")
    assert (loaded.sequence, loaded.burn_in) == (6, 2)
    assert (loaded.replay_buffer.sequence, loaded.replay_buffer.burn_in, loaded.replay_buffer.n_envs) == (6, 2, 2)
    actor, critic_cell = (network.features_extractor.circuit.cell for network in (loaded.actor, loaded.critic))
    assert (type(actor).__name__, type(critic_cell).__name__) == ("CfC", "LSTM")
    loaded.learn(60)
    longer = RecurrentSAC.load(tmp_path / "model", env=envs(), device="cpu", sequence=8)
    model.save_replay_buffer(tmp_path / "buffer")
    longer.load_replay_buffer(tmp_path / "buffer")
    assert longer.replay_buffer.sample(16).observations.starts.shape == (2, 10)


@of_kinds
def test_callbacks_evaluation_normalisation_and_tensorboard(kind: Any, tmp_path: Any) -> None:
    env = VecNormalize(make_vec_env(Repeat, 2, seed=0))
    evaluation_env = VecNormalize(make_vec_env(Repeat, 2, seed=1), training=False, norm_reward=False)
    model = build(kind, env, tensorboard_log=str(tmp_path / "board"))
    watching = EvalCallback(evaluation_env, n_eval_episodes=4, eval_freq=20, log_path=str(tmp_path), verbose=0)
    model.learn(80, callback=CallbackList([watching, CheckpointCallback(20, str(tmp_path / "kept"))]))
    found = np.load(tmp_path / "evaluations.npz")
    assert found["timesteps"].tolist() == [40, 80]
    assert (found["ep_lengths"] == 6).all()
    assert len(list((tmp_path / "kept").glob("*.zip"))) == 2
    assert len(list((tmp_path / "board").rglob("events.*"))) == 1
    assert env.obs_rms.count > 80
    # the buffer keeps what the environment said, and training sees it normalised
    kept = model.replay_buffer.observations[:40, :, 0]
    assert set(np.unique(kept)) == {-1.0, 0.0, 1.0}
    np.random.seed(0)
    rows = model.replay_buffer.sample(64, env=env).observations.observations
    assert rows[..., 0].abs().max() > 1.5
    assert -1 <= evaluate_policy(model, evaluation_env, 4)[0] <= 1


def test_an_evaluation_in_between_does_not_disturb() -> None:
    plain = build(RecurrentTD3).learn(90)
    watched = build(RecurrentTD3)
    watched.learn(90, EvalCallback(DummyVecEnv([partial(Steps, 9, (4,), plain.action_space)]), eval_freq=7, verbose=0))
    assert_same(weights(plain), weights(watched))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": "shared"}, "unknown critic 'shared': choose one of circuit, lstm, mlp"),
        ({"cell": "lct"}, "unknown cell 'lct': choose one of LTC"),
        ({"share_features_extractor": True}, "each need a memory of their own: leave share_features_extractor False"),
        ({"sequence": 0}, "a sequence is a whole number of steps, at least one, got 0"),
        ({"burn_in": -1}, "burn_in is a whole number of steps, zero or more, got -1"),
        ({"buffer_size": 20}, r"keeps 6 steps .* window of 3 \+ 4: make buffer_size at least 21"),
        ({"n_steps": 3}, "learns from one step at a time: leave n_steps 1, not 3"),
        ({"optimize_memory_usage": True}, "leave optimize_memory_usage False"),
        ({"policy": "MlpPolicy"}, "unknown policy 'MlpPolicy': Recurrent(SAC|TD3) of ncp_control runs \"NCPPolicy\""),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
@of_kinds
def test_what_cannot_work_is_refused(kind: Any, settings: dict[str, Any], message: str) -> None:
    for as_dict in (False, True):
        with pytest.raises(ValueError, match=message) as caught:
            build(kind, envs(as_dict), **settings)
        assert "\n" not in str(caught.value)


def test_other_policies_and_buffers_are_refused(tmp_path: Any) -> None:
    plain = SAC("MlpPolicy", envs(), device="cpu", buffer_size=100)
    with pytest.raises(TypeError, match="RecurrentSAC of ncp_control runs an NCPPolicy, not a SACPolicy"):
        RecurrentSAC(type(plain.policy), envs(), device="cpu")
    with pytest.raises(TypeError, match="replay_buffer_class must be a SequenceReplayBuffer, not a ReplayBuffer"):
        build(replay_buffer_class=ReplayBuffer)
    plain.save_replay_buffer(tmp_path / "buffer")
    with pytest.raises(TypeError, match="the file holds a ReplayBuffer, which does not know where episodes begin"):
        build().load_replay_buffer(tmp_path / "buffer.pkl")
    build(buffer_size=60).save_replay_buffer(tmp_path / "small")
    model = build(sequence=30)
    with pytest.raises(ValueError, match=r"keeps 20 steps .* no room for a window of 3 \+ 30: .* at least 99"):
        model.load_replay_buffer(tmp_path / "small")
    model.learn(30)  # with the buffer that it had

    class Own(SequenceReplayBuffer):
        pass

    assert type(build(replay_buffer_class=Own).replay_buffer) is Own
