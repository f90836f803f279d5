"""Small environments whose every number can be foretold, and one that nobody solves without a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

Info = dict[str, Any]


class Recall(gym.Env[Any, Any]):
    """Shows +1 or -1 at the first step only; the last action is paid 1 if it repeats it, 0 if not.

    :param steps: of an episode
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
    """Observes (its own number, the episode's, the step's), and pays the step's number.

    :param number: of this environment among several
    :param lengths: how many steps the episodes last, in turn; negative for those that a time limit cuts
    :param space: of the actions, which change nothing
    :param as_dict: show where = (number, episode) and when = (step,)
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
