"""Environments of EnvPool in our algorithms, against the real package: `python scripts/clients.py envpool`."""

from __future__ import annotations

import numpy as np
import pytest

import ncp_control as nc
from ncp_control.rl import GymnasiumVecEnv, RecurrentPPO

pytestmark = pytest.mark.clients
envpool = pytest.importorskip("envpool")


def test_an_algorithm_takes_envpool_as_it_is_and_counts_episodes() -> None:
    envs = envpool.make_gymnasium("HalfCheetah-v4", num_envs=4, max_episode_steps=50, seed=1)
    kwargs = {"wiring": nc.AutoNCP(12, 4), "cell": "ltc"}
    model = RecurrentPPO("NCPPolicy", envs, n_steps=64, batch_size=64, policy_kwargs=kwargs)
    model.learn(512)
    assert [episode["l"] for episode in model.ep_info_buffer or ()] == [50] * 8


def test_only_the_environments_that_ended_are_reset_and_in_the_same_step() -> None:
    envs = GymnasiumVecEnv(envpool.make_gymnasium("CartPole-v1", num_envs=4, seed=1))
    random, before, ends = np.random.default_rng(0), envs.reset(), 0
    for _ in range(200):
        after, rewards, ended, infos = envs.step(random.integers(2, size=4))
        assert isinstance(before, np.ndarray)
        assert isinstance(after, np.ndarray)
        assert (rewards == 1).all()  # a step that only resets has the reward 0
        last = [info.get("terminal_observation", row) for info, row in zip(infos, after, strict=True)]
        # the pole's cart moves by its speed times 0.02 s, in every step of an episode
        np.testing.assert_allclose([row[0] for row in last], before[:, 0] + 0.02 * before[:, 1], rtol=0, atol=1e-5)
        assert (np.abs(after[ended]) <= 0.05).all()
        ends, before = ends + int(ended.sum()), after.copy()
    assert ends > 20


def test_the_asynchronous_mode_is_refused() -> None:
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=4, batch_size=2)
    with pytest.raises(ValueError, match=r"returns 2 of its 4 environments at a time.*without batch_size"):
        GymnasiumVecEnv(envs)
