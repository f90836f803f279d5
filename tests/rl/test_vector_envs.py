"""Vector environments of Gymnasium do in our algorithms what Stable-Baselines3's own do."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

import ncp_control as nc
from ncp_control.rl import GymnasiumVecEnv, RecurrentPPO

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Both(gym.ObservationWrapper[Any, Any, Any]):
    """Observes a dictionary."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"seen": env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"seen": observation}


def make_pole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=25)


def steps_of(envs: Any, steps: int = 120) -> list[Any]:
    """Everything that Stable-Baselines3 reads, for the same seed and the same actions."""
    envs.seed(3)
    seen: list[Any] = [envs.reset()]
    count = 0
    actions = np.random.default_rng(0).integers(2, size=(steps, envs.num_envs))
    for action in actions:
        observations, rewards, ended, infos = envs.step(action)
        ends = [(info["TimeLimit.truncated"], info.get("terminal_observation")) for info in infos]
        seen += [observations, rewards, ended, *[part for end in ends for part in end if part is not None]]
        count += int(ended.sum())
    assert count > 6
    return seen


@pytest.mark.parametrize("mode", MODES)
def test_every_step_and_every_end_is_the_same_as_in_a_dummy_vec_env(mode: AutoresetMode) -> None:
    ours = steps_of(GymnasiumVecEnv(SyncVectorEnv([make_pole] * 3, autoreset_mode=mode)))
    theirs = steps_of(DummyVecEnv([make_pole] * 3))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_observations_may_be_dictionaries(mode: AutoresetMode) -> None:
    envs = GymnasiumVecEnv(SyncVectorEnv([lambda: Both(make_pole())] * 2, autoreset_mode=mode))
    plain = GymnasiumVecEnv(SyncVectorEnv([make_pole] * 2, autoreset_mode=mode))
    for one, other in zip(steps_of(envs), steps_of(plain), strict=True):
        np.testing.assert_array_equal(one["seen"] if isinstance(one, dict) else one, other)


def test_an_algorithm_takes_them_as_they_are_and_counts_episodes() -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    model = RecurrentPPO("NCPPolicy", envs, n_steps=64, policy_kwargs={"wiring": nc.AutoNCP(8, 2), "cell": "ltc"})
    model.learn(256)
    assert len(model.ep_info_buffer or ()) > 2


@pytest.mark.system
def test_an_attribute_that_is_missing_ends_no_process() -> None:
    envs = GymnasiumVecEnv(AsyncVectorEnv([make_pole] * 2))
    assert not envs.has_attr("action_masks")
    assert envs.get_attr("render_mode", [1]) == [None]
    envs.reset()
    envs.close()


def test_a_wrapper_is_found() -> None:
    envs = GymnasiumVecEnv(SyncVectorEnv([lambda: Monitor(make_pole()), make_pole]))
    assert envs.env_is_wrapped(Monitor) == [True, False]


def test_environments_that_are_only_reset_together_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r'CartPoleVectorEnv cannot reset some .* vectorization_mode="sync"'):
        GymnasiumVecEnv(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"))


def test_a_setting_for_some_of_them_is_refused() -> None:
    envs = GymnasiumVecEnv(SyncVectorEnv([make_pole] * 2))
    with pytest.raises(ValueError, match="set_attr of GymnasiumVecEnv reaches all environments: leave out indices"):
        envs.set_attr("gravity", 1.0, indices=[0])
