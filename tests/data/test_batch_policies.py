"""Policies that act for several episodes at once: models, functions, and policies that are refused."""

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO

from helpers.collecting import same, short
from ncp_control.data import collect
from ncp_control.data.batch_policies import FunctionPolicy, PredictPolicy, RandomPolicy, as_batch_policy


def test_a_sampling_policy_is_reproducible() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", device="cpu", seed=0)
    one, again = (collect(model, short(), 3, deterministic=False, progress=False) for _ in range(2))
    deterministic = collect(model, short(), 3, progress=False)
    assert same(one, again)
    assert not same(one, deterministic)
    assert one.about["controller"]["deterministic"] is False
    assert len(one.about["controller"]["sha256"]) == 64


class Counter:
    """A policy with memory: its action is how many steps it has seen since its episode began."""

    name = "counter"

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        before = np.zeros(len(observation)) if state is None else state[0]
        now = np.where(episode_start, 0, before) + 1
        return (now[:, None] / 100).astype(np.float32), (now,)


def test_a_memory_is_carried_and_begins_anew_with_each_episode() -> None:
    rollouts = collect(Counter(), short(), rollouts=5, random_action_fraction=0.0, group=2, progress=False)
    expected = (np.arange(1, 21) / 100).astype(np.float32)
    assert all(np.array_equal(rollout.actions[:, 0], expected) for rollout in rollouts)


def test_a_policy_may_write_into_what_it_is_given() -> None:
    def careless(observations: Any) -> Any:
        observations *= 0
        return np.zeros(len(observations), dtype=np.int64)

    def careful(observations: Any) -> Any:
        return np.zeros(len(observations), dtype=np.int64)

    assert same(*(collect(policy, "CartPole-v1", 4, progress=False) for policy in (careless, careful)))


def test_a_policy_of_every_kind_becomes_a_batch_policy() -> None:
    space = short().make().action_space
    random, model, function = (as_batch_policy(policy, space) for policy in ("random", Counter(), np.zeros_like))
    assert (type(random), type(model), type(function)) == (RandomPolicy, PredictPolicy, FunctionPolicy)
    assert [policy.name for policy in (random, model, function)] == ["random", "counter", "zeros_like"]
    assert as_batch_policy(random, space) is random
    with pytest.raises(TypeError, match="a policy is 'random', a model with predict, or a function, not int"):
        as_batch_policy(3, space)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (lambda seen: np.zeros((3, 1)), r"actions of shape \(3, 1\) for 2 observations at step 0"),
        (lambda seen: np.zeros((2, 4)), r"they should be \(2, 1\)"),
        (lambda seen: np.zeros(2), r"they should be \(2, 1\)"),
        (lambda seen: np.full((2, 1), np.nan), "gave nan at step 0"),
        (lambda seen: np.full((2, 1), 1j), "gave 1j at step 0"),
        (lambda seen: [[1.0], [1.0, 2.0]], "gave actions of different lengths"),
        (lambda seen: np.array([["left"], ["right"]]), "gave left at step 0"),
        ("teacher", "unknown policy 'teacher'"),
    ],
)
def test_actions_of_a_wrong_shape_or_kind_are_refused(policy: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        collect(policy, short(), 2, progress=False)


def test_a_choice_outside_of_the_action_space_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gave 2 at step 0, which is not an action of Discrete\(2\)"):
        collect(lambda seen: np.full(len(seen), 2), "CartPole-v1", 2, progress=False)
    with pytest.raises(ValueError, match="which is not an action"):
        collect(lambda seen: np.full(len(seen), 0.5), "CartPole-v1", 2, progress=False)
