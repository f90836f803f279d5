"""Stable-Baselines3's vector environments and their wrappers, with every algorithm."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    SubprocVecEnv,
    VecCheckNan,
    VecEnv,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    sync_envs_normalization,
)

from helpers.stock_models import OFF_POLICY, Anything, build, copies, of_recurrent
from helpers.weights import assert_same, moved, weights

DICT = spaces.Dict(a=spaces.Box(5.0, 9.0, (2,), np.float32), b=spaces.Discrete(3, start=5))
FAR = spaces.Box(5.0, 9.0, (2,), np.float32)


@of_recurrent
@pytest.mark.parametrize("space", [FAR, DICT], ids=["Box", "Dict"])
def test_normalisation_is_synchronised_frozen_saved_and_loaded(kind: Any, space: Any, tmp_path: Any) -> None:
    make = partial(Anything, space)
    keys = ["a"] if space is DICT else None
    env = VecNormalize(copies(kind, 2, make), norm_obs_keys=keys)
    model = build(kind, env).learn(40)
    frozen = VecNormalize(copies(kind, 2, make), norm_obs_keys=keys, training=False, norm_reward=False)
    sync_envs_normalization(env, frozen)
    seen = env.obs_rms["a"] if keys else env.obs_rms
    copied = frozen.obs_rms["a"] if keys else frozen.obs_rms
    np.testing.assert_array_equal(seen.mean, copied.mean)
    assert (seen.mean > 5).all()
    before = copied.count
    evaluate_policy(model, frozen, 4, warn=False)
    assert copied.count == before
    env.save(tmp_path / "normalize.pkl")
    model.save(tmp_path / "model")
    again = VecNormalize.load(str(tmp_path / "normalize.pkl"), copies(kind, 2, make))
    loaded = kind.load(tmp_path / "model", env=again, device="cpu")
    assert loaded.get_vec_normalize_env() is again
    assert loaded.learn(16).num_timesteps == 16
    assert_same(weights(model), weights(kind.load(tmp_path / "model", device="cpu")))


@of_recurrent
def test_frames_are_stacked_and_entries_extracted(kind: Any) -> None:
    stacked = VecFrameStack(copies(kind, 2), 3)
    model = build(kind, stacked).learn(16)
    assert model.predict(stacked.reset())[0].shape == (2, 2)
    assert model.observation_space.shape == (6,)
    extracted = VecExtractDictObs(copies(kind, 2, partial(Anything, DICT)), "a")
    assert build(kind, extracted).learn(16).observation_space.shape == (2,)


@of_recurrent
def test_monitors_and_checks_may_wrap_in_any_order(kind: Any, tmp_path: Any) -> None:
    env: VecEnv = VecMonitor(VecCheckNan(VecNormalize(VecMonitor(copies(kind, 2)))), str(tmp_path / "episodes"))
    model = build(kind, env).learn(32)
    assert model.ep_info_buffer
    assert all(info["l"] == 5 for info in model.ep_info_buffer)
    single = build(kind, Monitor(Anything(), str(tmp_path / "one"))).learn(16)
    assert [info["r"] for info in single.ep_info_buffer] == [15.0] * 3


@pytest.mark.slow
@of_recurrent
def test_environments_in_other_processes_give_the_same_model(kind: Any) -> None:
    made: list[Any] = []
    for vec_env in (None, SubprocVecEnv):
        env = make_vec_env(Anything, 2, seed=0, vec_env_cls=vec_env)
        made.append(build(kind, env).learn(32))
        env.close()
    assert_same(*(weights(model) for model in made))


@of_recurrent
@pytest.mark.parametrize("number", [1, 3])
def test_any_number_of_environments_trains(kind: Any, number: int) -> None:
    model = build(kind, copies(kind, number))
    before = weights(model)
    model.learn(24 * number)
    assert moved(before, weights(model))
    assert evaluate_policy(model, copies(kind, 2), 5, warn=False) == (15.0, 0.0)


@pytest.mark.parametrize("kind", OFF_POLICY)
@pytest.mark.parametrize(
    ("train_freq", "gradient_steps", "updates"), [(4, 2, 3 * 2), ((5, "step"), -1, 2 * 5), ((1, "episode"), 3, 2 * 3)]
)
def test_training_happens_as_often_as_asked(train_freq: Any, gradient_steps: int, updates: int, kind: Any) -> None:
    model = build(kind, copies(kind, 1), train_freq=train_freq, gradient_steps=gradient_steps, learning_starts=7)
    assert model.learn(15)._n_updates == updates


def test_a_registered_environment_is_made_from_its_name() -> None:
    assert gym.spec("ncp/PendulumNoVel-v0").max_episode_steps == 200
    for kind in OFF_POLICY:
        model = build(kind, "ncp/PendulumNoVel-v0").learn(14)
        assert model.get_env().num_envs == 1
