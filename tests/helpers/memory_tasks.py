"""Small environments whose every number can be predicted, and some that no agent solves without a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch

Info = dict[str, Any]


class Recall(gym.Env[Any, Any]):
    """Shows a cue, +1 or -1, at the first step only; the last action earns 1 if it repeats the cue, and 0 if not.

    :param steps: the length of an episode
    """

    def __init__(self, steps: int = 6) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._steps = steps

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._cue = int(self.np_random.integers(2))
        self._step = 0
        return self._observe(2.0 * self._cue - 1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._step += 1
        ended = self._step == self._steps
        return self._observe(0.0), float(ended and int(action) == self._cue), ended, False, {}

    def _observe(self, cue: float) -> Any:
        return np.array([cue, self._step == self._steps - 1], dtype=np.float32)


class Steps(gym.Env[Any, Any]):
    """Observes the numbers of the environment, the episode and the step; the reward is the step's number.

    :param number: the number of this environment among several
    :param lengths: the lengths of the episodes, in turn; negative for episodes that a time limit ends
    :param space: the space of the actions, which change nothing
    :param as_dict: return dictionaries with where = (number, episode) and when = (step,)
    """

    def __init__(
        self, number: int, lengths: Sequence[int], space: gym.spaces.Space[Any] | None = None, as_dict: bool = False
    ) -> None:
        box = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        where, when = (gym.spaces.Box(-np.inf, np.inf, (size,), np.float32) for size in (2, 1))
        self.observation_space = gym.spaces.Dict(where=where, when=when) if as_dict else box
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32) if space is None else space
        self._number, self._lengths, self._as_dict = number, list(lengths), as_dict
        self._episode = -1

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._episode += 1
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        assert action in self.action_space
        self._step += 1
        length = self._lengths[self._episode % len(self._lengths)]
        ended = self._step == abs(length)
        return self._observe(), float(self._step), ended and length > 0, ended and length < 0, {}

    def _observe(self) -> Any:
        seen = np.array([self._number, self._episode, self._step], dtype=np.float32)
        return {"where": seen[:2], "when": seen[2:]} if self._as_dict else seen


class Repeat(Recall):
    """Rewards the last action by its distance from the cue: 1 for the cue itself, 0 on average without a memory."""

    def __init__(self, steps: int = 6) -> None:
        super().__init__(steps)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: Any) -> Any:
        self._step += 1
        ended = self._step == self._steps
        paid = 1 - abs(float(action[0]) - (2 * self._cue - 1)) if ended else 0.0
        return self._observe(0.0), paid, ended, False, {}


def joined(seen: Any) -> Any:
    """Returns (environment, episode, step) from observations of `Steps` of either kind, (..., 3)."""
    if not isinstance(seen, dict):
        return seen
    values = (seen["where"], seen["when"])
    return torch.cat(values, dim=-1) if isinstance(values[0], torch.Tensor) else np.concatenate(values, axis=-1)


def shown(rows: Any, as_dict: bool) -> Any:
    """Returns observations of `Steps` of either kind from (environment, episode, step)."""
    return {"where": rows[..., :2], "when": rows[..., 2:]} if as_dict else rows
