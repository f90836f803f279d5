"""Episodes side by side do not disturb each other."""

from typing import Any

import gymnasium as gym
import numpy as np

from helpers.collecting import same
from ncp_control.data import collect
from ncp_control.data.batch_policies import FunctionPolicy
from ncp_control.data.episodes import begin_episodes, run_episodes


def test_episodes_of_different_length_do_not_disturb_each_other() -> None:
    def upright(observations: Any) -> Any:
        return (observations[:, 2] > 0).astype(np.int64)

    together = collect(upright, "CartPole-v1", 6, group=6, progress=False)
    alone = collect(upright, "CartPole-v1", 6, group=1, progress=False)
    assert same(together, alone)
    assert len({rollout.steps for rollout in together}) > 1
    assert all(rollout.terminated for rollout in together)


class Sharing(gym.Env[Any, Any]):
    """Writes its observations into an array that all such environments share, and lasts `length` steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)
    shared = np.zeros(2)

    def __init__(self, number: int, length: int) -> None:
        self.number, self.length, self.step_number = number, length, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.step_number = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        return self.observe(), float(action[1]), self.step_number == self.length, False, {}

    def observe(self) -> Any:
        self.shared[:] = self.number, self.step_number
        return self.shared


def test_every_episode_is_run_to_its_end_and_keeps_its_place_in_the_batch() -> None:
    batches = []

    def policy(observations: Any) -> Any:
        batches.append(observations.tolist())
        observations += 1
        return observations

    envs, chosen = [Sharing(0, 1), Sharing(1, 3)], FunctionPolicy(policy)
    starts = begin_episodes(envs, chosen, [5, 6])
    steps = list(run_episodes(envs, chosen, [observation for observation, _ in starts]))
    assert batches == [[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[0, 1], [1, 2]]]
    assert [step.places for step in steps] == [(0, 1), (1,), (1,)]
    assert [[seen[1] for seen in step.observations] for step in steps] == [[1, 1], [2], [3]]
    assert [list(step.rewards) for step in steps] == [[1, 1], [2], [3]]
    assert [step.ended for step in steps] == [[True, False], [False], [True]]
