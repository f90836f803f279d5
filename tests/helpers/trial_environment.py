"""An environment of trials without an end, in the form of NeuroGym's."""

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np


class NamedBox(gym.spaces.Box):
    """A Box with a name for each entry."""

    def __init__(self, low: Any, high: Any, shape: tuple[int, ...], name: Mapping[str, Any] | None = None) -> None:
        super().__init__(low, high, shape, np.float32)
        self.name = name


class NamedDiscrete(gym.spaces.Discrete):
    """Choices with names."""

    def __init__(self, n: int, name: Mapping[str, Any] | None = None) -> None:
        super().__init__(n)
        self.name = name


class CueTrials(gym.Env[Any, Any]):
    """A cue on one of two sides, a pause, and a moment to choose the side: four steps a trial, one trial after another.

    It draws from a generator of its own, which only `seed` seeds.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    observation_space = NamedBox(-1.0, 1.0, (3,), {"go": 0, "cue": range(1, 3)})
    action_space = NamedDiscrete(3, {"wait": 0, "side": [1, 2]})
    dt = 0.02

    def __init__(self) -> None:
        self.rng = np.random.RandomState()

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.rng = np.random.RandomState(seed)
        return [seed]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.new_trial()
        return self.observed(), {}

    def new_trial(self) -> None:
        self.time, self.side = 0, int(self.rng.choice([1, 2]))

    def observed(self) -> Any:
        seen = np.zeros(3, np.float32)
        if self.time == 0:
            seen[self.side] = 1
        seen[0] = self.time == 3
        return seen

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_last = self.time == 3
        right = self.side if is_last else 0
        info: dict[str, Any] = {"new_trial": is_last, "gt": right}
        self.time += 1
        if is_last:
            info["performance"] = int(action == right)
            self.new_trial()
        return self.observed(), float(is_last and action == right), False, False, info


class EndlessCart(gym.Env[Any, Any]):
    """Nothing happens, without an end and without trials."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Remembering:
    """Chooses the side of the cue that it saw, or always the same side."""

    def __init__(self, always: int | None = None) -> None:
        self.always = always

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        seen = np.asarray(observation)
        cued = np.where(seen[:, 1] > 0.5, 1, np.where(seen[:, 2] > 0.5, 2, 0))
        kept = cued if state is None else np.where(cued > 0, cued, state[0])
        chosen = kept if self.always is None else np.full_like(kept, self.always)
        return np.where(seen[:, 0] > 0.5, chosen, 0), (kept,)
