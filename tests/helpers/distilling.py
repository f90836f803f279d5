"""Small environments, teachers and students of a distillation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_envs
from helpers.memory_tasks import Steps
from helpers.on_policy_models import build
from ncp_control.distil.collecting import Actor, Collector, TeachingEnv
from ncp_control.distil.demonstrations import Demonstrations, demonstrations_of
from ncp_control.distil.student import Student

Info = dict[str, Any]
CHOICES = gym.spaces.Discrete(3, start=5)


class Rail(gym.Env[Any, Any]):
    """A point on a rail from -1 to 1, which an action moves by up to 0.25; a step that ends on the rail earns 1.

    Episodes begin at 0. What was executed in each of them is in `executed`.

    :param steps: the length of an episode
    :param returns: whether a point that fell off can come back
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, steps: int = 1000, returns: bool = True) -> None:
        self.executed: list[list[float]] = []
        self._length, self._returns = steps, returns

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._place = 0.0
        self.executed.append([])
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        assert action in self.action_space
        self.executed[-1].append(float(action[0]))
        if self._returns or abs(self._place) <= 1:
            self._place += 0.25 * float(action[0])
        return self._observe(), float(abs(self._place) <= 1), False, len(self.executed[-1]) == self._length, {}

    def _observe(self) -> Any:
        return np.array([self._place], dtype=np.float32)


def back(observations: Any) -> Any:
    """The teacher on the rail: moves to its middle."""
    return np.clip(-4 * observations, -1, 1)


def away(observations: Any) -> Any:
    """A student on the rail that always moves to its right end."""
    return np.ones_like(observations)


def constant(value: float) -> Callable[[Any], Any]:
    """Makes a policy of one number that always takes the same action."""
    return lambda observations: np.full((len(observations), 1), value, dtype=np.float32)


def turning(observations: Any) -> Any:
    """A teacher of the pendulum: its torque is the velocity's share of the largest, doubled."""
    return observations[:, 2:] / 4


def collector_of(
    envs: list[Any], teacher: Any, student: Any, patience: int = 5, views: list[Any] | None = None
) -> Collector:
    teaching = [TeachingEnv(env, view) for env, view in zip(envs, views or [None] * len(envs), strict=True)]
    space = envs[0].action_space
    return Collector(teaching, Actor(teacher, space), Actor(student, space), patience)


def student_of(make: Callable[[], Any], keys: list[str] | None = None, **settings: Any) -> Student:
    """Makes a student in an environment, with a small circuit.

    :param make: makes its environment
    :param keys: the entries of its observations that are normalised
    :param settings: of the model and its policy
    """
    envs = VecNormalize(DummyVecEnv([make]), norm_reward=False, norm_obs_keys=keys)
    return Student(build(envs, **settings))


def pendulum() -> Any:
    return gym.make("ncp_envs:ncp/PendulumNoVel-v0", max_episode_steps=20)


def timed_pendulum() -> Any:
    return ncp_envs.IrregularTime(pendulum(), frames=(1, 3), observe_elapsed="apart", nominal=2.0)


def choosing() -> Any:
    return Steps(0, (5, -3, 1, 9), CHOICES)


MAKE: dict[str, Callable[[], Any]] = {"plain": pendulum, "timed": timed_pendulum, "choices": choosing}
STUDENTS: dict[str, Callable[..., Student]] = {
    "plain": partial(student_of, pendulum),
    "timed": partial(student_of, timed_pendulum, ["observations"]),
    "choices": partial(student_of, choosing),
}


def numbered(lengths: list[int], own: list[bool]) -> Demonstrations:
    """Makes demonstrations of the pendulum with random observations; each label is the step's number in the stream.

    :param lengths: the length of each episode
    :param own: for each of them, whether the teacher acted alone
    """
    random, parts, total = np.random.default_rng(0), [], 0
    for length, mine in zip(lengths, own, strict=True):
        seen = list(random.normal(size=(length, 2)).astype(np.float32))
        parts.append(demonstrations_of(seen, list(np.arange(total, total + length, dtype=np.float32)[:, None]), mine))
        total += length
    return Demonstrations.joined(parts)
