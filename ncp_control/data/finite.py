"""A wrapper that refuses NaN and infinity from an environment before any model learns from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np


class CheckFinite(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """The same environment, except that an observation or reward that is not finite raises an error.

    :param env: any environment
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        if seed is not None and callable(own := getattr(self.unwrapped, "seed", None)):
            own(seed)  # older environments draw from a generator that their `reset` does not seed
        observation, info = self.env.reset(seed=seed, options=options)
        self._step = 0
        self._check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.check_step(observation, reward)
        return observation, reward, terminated, truncated, info

    def count_step(self) -> None:
        """Counts a step."""
        self._step += 1

    def check_step(self, observation: Any, reward: Any) -> None:
        """Counts a step and looks at what it gave."""
        self.count_step()
        self._check(observation)
        if not is_finite_number(reward):
            raise ValueError(f"{self._name()} gave the reward {reward} at {self._when()}: correct the environment")

    def _check(self, observation: Any) -> None:
        parts = observation.items() if isinstance(observation, dict) else (("", observation),)
        for key, values in parts:
            if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not is_all_finite(values):
                first = np.argwhere(~np.isfinite(values))[0]
                where = f"{key}{first.tolist() if len(first) else ''}"
                raise ValueError(
                    f"{self._name()} gave the observation {where} = {values[tuple(first)]} at {self._when()}: correct "
                    "the environment"
                )

    def _name(self) -> str:
        spec = self.env.spec
        return f"the environment {self.env if spec is None else spec.id}"

    def _when(self) -> str:
        return f"step {self._step} of an episode" if self._step else "the beginning of an episode"


class FiniteLayer:
    """Does what `CheckFinite` does for environments that are stepped together, as `ncp_envs.mujoco_layers` says.

    :param wrappers: the `CheckFinite` around each environment
    """

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._wrappers = wrappers

    def before(self, places: Sequence[int], actions: Any) -> Any:
        """Changes nothing."""
        return actions

    def after(self, places: Sequence[int], outcome: Any) -> Any:
        """Looks at what the step gave."""
        if is_all_finite(outcome.observations) and np.isfinite(outcome.rewards).all():
            for place in places:
                self._wrappers[place].count_step()
            return outcome
        for place, observation, reward in zip(places, outcome.observations, outcome.rewards, strict=True):
            self._wrappers[place].check_step(observation, reward)
        return outcome


def is_all_finite(values: Any) -> bool:
    """Whether an array contains neither NaN nor infinity. If the sum of squares is finite, all numbers are, and the sum
    takes a fraction of the time; otherwise the sum may just have overflowed, and every number is looked at.
    """
    flat = values.ravel()
    is_plain = flat.itemsize in (4, 8)  # other types overflow with a warning
    return (is_plain and math.isfinite(flat.dot(flat))) or bool(np.isfinite(flat).all())


def is_finite_number(value: Any) -> bool:
    """Whether a reward is a number, and a finite one."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
