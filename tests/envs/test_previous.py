"""PreviousAction shows an agent what it did, and the reward for it."""

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

import ncp_envs  # noqa: E402
from helpers.episode_counter import EpisodeCounter  # noqa: E402


def test_the_previous_action_and_its_reward_are_observed() -> None:
    env = ncp_envs.PreviousAction(EpisodeCounter((3, 5)), reward=True)
    plain = EpisodeCounter((3, 5))
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (9, 1)).astype(np.float32)
    seen, wanted = env.reset(seed=0)[0], plain.reset(seed=0)[0]
    np.testing.assert_array_equal(seen, [*wanted, 0, 0])
    for action in actions:
        seen, reward, terminated, truncated, _ = env.step(action)
        wanted = plain.step(action)[0]
        np.testing.assert_array_equal(seen, np.array([*wanted, *action, reward], dtype=seen.dtype))
        if terminated or truncated:
            np.testing.assert_array_equal(env.reset()[0], [*plain.reset()[0], 0, 0])
    assert ncp_envs.observation_names(env)[-2:] == ["previous action", "previous reward"]


def test_a_discrete_action_is_observed_as_one_hot() -> None:
    env = ncp_envs.PreviousAction(gym.make("CartPole-v1"))
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(1)[0][4:], [0, 1])
    np.testing.assert_array_equal(env.step(np.int64(0))[0][4:], [1, 0])
    assert env.observation_space.shape == (6,)
