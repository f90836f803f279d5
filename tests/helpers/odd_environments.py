"""Environments with spaces or numbers that a circuit cannot learn from; importing this registers one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ID = "Odd-v0"
VECTOR = spaces.Box(-1.0, 1.0, (2,), np.float32)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": VECTOR,
    "discrete": spaces.Discrete(4),
    "choices": spaces.MultiDiscrete([2, 3]),
    "dict": spaces.Dict(a=VECTOR, b=spaces.Discrete(3)),
    "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "tuple": spaces.Tuple((VECTOR, VECTOR)),
    "text": spaces.Text(5),
    "nested": spaces.Dict(a=spaces.Dict(b=VECTOR)),
    "empty": spaces.Box(-1.0, 1.0, (0,), np.float32),
    "number": spaces.Box(-1.0, 1.0, (), np.float32),
    "sequence": spaces.Sequence(VECTOR),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "vector": VECTOR,
    "discrete": spaces.Discrete(3),
    "dict": spaces.Dict(a=VECTOR),
    "tuple": spaces.Tuple((VECTOR, VECTOR)),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "empty": spaces.Box(-1.0, 1.0, (0,), np.float32),
}


class Odd(gym.Env[Any, Any]):
    """Draws observations from a space, and pays a reward of 1 at each step.

    :param observations: a name in `OBSERVATIONS`
    :param actions: a name in `ACTIONS`
    :param bad: "observation" or "reward" to make one of them wrong, once
    :param at: the step at which it is wrong, counted over all episodes; 0 is the first reset
    :param value: the wrong value
    :param steps: the length of an episode
    :param only: the seed of the only episode in which it is wrong; None for any episode
    """

    def __init__(
        self,
        observations: str = "vector",
        actions: str = "vector",
        bad: str = "",
        at: int = 0,
        value: Any = "nan",
        steps: int = 10,
        only: int | None = None,
    ) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observations], ACTIONS[actions]
        self._bad, self._at, self._steps = bad, at, steps
        self._value = float(value) if isinstance(value, str) else value
        self._only, self._seed = only, only
        self._life = self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
            self._seed = seed if self._only is not None else None
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._life += 1
        self._step += 1
        is_bad = self._bad == "reward" and self._life == self._at and self._seed == self._only
        return self._observe(), self._value if is_bad else 1.0, self._step >= self._steps, False, {}

    def _observe(self) -> Any:
        seen = self.observation_space.sample()
        if self._bad == "observation" and self._life == self._at:
            seen[1] = self._value
        return seen


gym.register(ID, entry_point="helpers.odd_environments:Odd")
