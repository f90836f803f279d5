"""An environment whose episodes depend on more than the seed of their reset; importing this registers it."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np

REMEMBERING = "Remembering-v0"


class Remembering(gym.Env[Any, Any]):
    """Shows how many episodes it has begun, or random numbers that no reset seeds.

    :param remembers: "episodes" or "numbers"
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, remembers: str) -> None:
        self._remembers, self._episodes, self._step = remembers, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._episodes, self._step = self._episodes + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._step += 1
        return self._observe(), 1.0, self._step == 3, False, {}

    def _observe(self) -> Any:
        if self._remembers == "episodes":
            return np.array([self._episodes, self._step], np.float64)
        return np.array([random.random(), np.random.random()])


gym.register(REMEMBERING, entry_point="helpers.remembering_environment:Remembering")
