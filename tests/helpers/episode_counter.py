"""An environment whose observation is its episode, its step and the last action."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

Info = dict[str, Any]


class EpisodeCounter(gym.Env[Any, Any]):
    """Observes (episode, step, action). The reward is the number of the step.

    :param lengths: the numbers of steps of the episodes, in turn; every second episode is truncated
    """

    def __init__(self, lengths: Sequence[int] = (1000,)) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1e6, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._lengths = list(lengths)
        self._episode = -1
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._episode = 0 if seed is not None else self._episode + 1
        self._step = 0
        return self._observe(0.0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._step += 1
        ended = self._step >= self._lengths[self._episode % len(self._lengths)]
        is_even = self._episode % 2 == 0
        return self._observe(action[0]), float(self._step), ended and is_even, ended and not is_even, {}

    def _observe(self, action: float) -> Any:
        return np.array([self._episode, self._step, action], dtype=np.float32)
