"""Where episodes begin and end in a vector environment, in each of Gymnasium's three ways to reset."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ncp_envs.streams import offset_seed


class VectorEpisodes:
    """Follow the episodes of the environments of a vector environment.

    :param env: the vector environment; one that does not say how it resets is taken to do so on the next step
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)

    def reset(self, seed: Any, options: dict[str, Any] | None) -> list[tuple[int, int | None]]:
        """Return which environments a reset with these arguments begins anew, and each one's seed.

        Call it before the reset itself, which takes the mask out of the options.
        """
        count = len(self._ended)
        is_one = seed is None or isinstance(seed, int | np.integer)
        seeds = [offset_seed(seed, index) for index in range(count)] if is_one else list(seed)
        mask = (options or {}).get("reset_mask")
        chosen = np.ones(count, dtype=np.bool_) if mask is None else np.array(mask, dtype=np.bool_)
        self._ended[chosen] = False
        return [(int(index), seeds[index]) for index in np.flatnonzero(chosen)]

    def begin_on_this_step(self) -> NDArray[np.bool_]:
        """Which environments the coming step resets instead, whatever their actions are."""
        return self._ended.copy() if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(self._ended)

    def step(self, terminations: Any, truncations: Any) -> NDArray[np.bool_]:
        """Take note of the ends, and return which environments ended and began anew within the step."""
        self._ended = np.logical_or(terminations, truncations)
        return self._ended.copy() if self._mode == AutoresetMode.SAME_STEP else np.zeros_like(self._ended)
