"""Evaluating a policy: the returns of whole episodes, each with a seed of its own."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ncp_control.data import collect
from ncp_control.data.collection import spawned_seed
from ncp_control.rl import evaluate, evaluation


def make() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


class Counting:
    """A policy with memory: it pushes to the other side at every second step of an episode."""

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        before = np.zeros(len(observation), dtype=int) if state is None else state[0]
        now = np.where(episode_start, 0, before + 1)
        return now // 2 % 2, (now,)


class Sampling:
    """A policy that draws its actions with torch."""

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        return torch.randint(2, (len(observation),)).numpy(), None


def test_the_returns_are_those_of_one_episode_after_another() -> None:
    found = evaluate(Counting(), make, episodes=18, seed=3)
    env, returns = make(), []
    for k in range(18):
        observation, _ = env.reset(seed=spawned_seed(3, k))
        total, state, start, ended = 0.0, None, np.ones(1, dtype=bool), False
        while not ended:
            (action,), state = Counting().predict(observation[None], state, start, True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, start, ended = total + float(reward), np.zeros(1, dtype=bool), terminated or truncated
        returns.append(total)
    assert found.returns == returns
    assert found.lengths == returns  # each step pays 1
    assert len(set(returns)) > 1


def test_an_evaluation_and_a_collection_run_the_same_episodes() -> None:
    returns, lengths = evaluate(Sampling(), make, episodes=16, seed=5)
    rollouts = collect(Sampling(), "CartPole-v1", 16, random_action_fraction=0.0, seed=5, progress=False)
    assert returns == [rollout.total_reward for rollout in rollouts]
    assert lengths == [rollout.steps for rollout in rollouts]


def test_a_sampling_policy_is_reproducible_and_leaves_torchs_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    one, again, other = (evaluate(Sampling(), make, episodes=20, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert one == again
    assert one != other


def test_an_evaluation_needs_an_episode() -> None:
    with pytest.raises(ValueError, match="at least one episode, got 0"):
        evaluate(Counting(), make, episodes=0)


def test_the_old_name_of_the_result_warns() -> None:
    with pytest.warns(DeprecationWarning, match="Episodes is now EpisodeReturns"):
        assert evaluation.Episodes is evaluation.EpisodeReturns
