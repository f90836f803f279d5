"""Where episodes begin and end in a vector environment, in each of Gymnasium's three autoreset modes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ncp_envs.streams import offset_seed


class VectorEpisodes:
    """Follows the episodes of the environments of a vector environment.

    :param env: the vector environment; one without an autoreset mode is assumed to reset on the next step
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)

    def reset(self, seed: Any, options: dict[str, Any] | None) -> list[tuple[int, int | None]]:
        """Returns the places of the environments that a reset with these arguments restarts, each with its seed.

        Call this before the reset itself, which removes the mask from the options.
        """
        count = len(self._ended)
        is_one = seed is None or isinstance(seed, int | np.integer)
        seeds = [offset_seed(seed, index) for index in range(count)] if is_one else list(seed)
        mask = (options or {}).get("reset_mask")
        chosen = np.ones(count, dtype=np.bool_) if mask is None else np.array(mask, dtype=np.bool_)
        self._ended[chosen] = False
        return [(int(index), seeds[index]) for index in np.flatnonzero(chosen)]

    def begin_on_this_step(self) -> NDArray[np.bool_]:
        """Says which environments the coming step resets instead of executing their actions."""
        return self._ended.copy() if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(self._ended)

    def step(self, terminations: Any, truncations: Any) -> NDArray[np.bool_]:
        """Notes which episodes ended in a step, and returns which environments began the next one in the same step."""
        self._ended = np.logical_or(terminations, truncations)
        return self._ended.copy() if self._mode == AutoresetMode.SAME_STEP else np.zeros_like(self._ended)
