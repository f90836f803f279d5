"""Environments that forbid some of their choices."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from ncp_control.rl.policies.masks import choices_of_mask

Info = dict[str, Any]
SPACES: dict[str, Any] = {
    "one choice": gym.spaces.Discrete(5),
    "one from five": gym.spaces.Discrete(5, start=5),
    "several": gym.spaces.MultiDiscrete([2, 3], start=[0, 4]),
    "switches": gym.spaces.MultiBinary(3),
}


class Drawn(gym.Env[Any, Any]):
    """Draws observations and rewards, and refuses a forbidden action with an error.

    :param space: the action space
    :param length: the length of an episode
    """

    def __init__(self, space: gym.spaces.Space[Any], length: int = 6) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space, self.length = space, length
        self.sizes = choices_of_mask(space)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.count = 0
        return self._next(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        assert self.action_space.contains(action if np.ndim(action) else int(action))
        if not allows(self.allowed, self.sizes, np.asarray(action) - getattr(self.action_space, "start", 0)):
            raise ValueError("a forbidden action was chosen")
        self.count += 1
        ended = self.count == self.length
        return self._next(), float(self.np_random.normal()), ended, False, {}

    def _next(self) -> Any:
        self.allowed = np.ones(sum(self.sizes), dtype=bool)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


class Free(Drawn):
    """Allows everything, and says so."""

    def action_masks(self) -> Any:
        return self.allowed


class Strict(Free):
    """Forbids choices at random, at least one of each stays."""

    def _next(self) -> Any:
        seen = super()._next()
        kept = [self.np_random.integers(size) for size in self.sizes]
        self.allowed = self.np_random.random(sum(self.sizes)) < 0.4
        self.allowed[np.cumsum([0, *self.sizes[:-1]]) + kept] = True
        return seen


class StrictFive(Strict):
    """A `Strict` with five choices, which a registry can make."""

    def __init__(self) -> None:
        super().__init__(SPACES["one choice"])


class Ranks(gym.Env[Any, Any]):
    """Allows two of six choices at each step, and pays for the higher or for the lower one, as a cue at the start said.

    No observation shows what is allowed, so that an agent without masks earns little; one without a memory gets half.
    """

    LENGTH = 8

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.cue, self.count = int(self.np_random.integers(2)), 0
        return self._next(2.0 * self.cue - 1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        paid = float(int(action) == self.pair[self.cue]) / self.LENGTH
        self.count += 1
        return self._next(0.0), paid, self.count == self.LENGTH, False, {}

    def action_masks(self) -> Any:
        return np.isin(np.arange(6), self.pair)

    def _next(self, cue: float) -> Any:
        self.pair = np.sort(self.np_random.choice(6, size=2, replace=False))
        return np.array([cue], dtype=np.float32)


def allows(allowed: Any, sizes: list[int], action: Any) -> bool:
    """Whether flags (D,) allow an action that is counted from zero."""
    places = np.cumsum([0, *sizes[:-1]]) + np.ravel(action).astype(int)
    return bool(allowed[places].all())
