"""An environment that can only be learned from normalised observations; importing this registers it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

ID = "Sign-v0"
STEPS = 50


class Sign(gym.Env[Any, Any]):
    """Observes normally distributed numbers around 1000. The reward is the action times the sign of number - 1000."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = STEPS
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(np.sign(self._shown - 1000) * action[0])
        self._left -= 1
        return self._observe(), reward, False, self._left == 0, {}

    def _observe(self) -> Any:
        self._shown = self.np_random.normal(1000, 100)
        return np.array([self._shown], np.float32)


gym.register(ID, entry_point=f"{__name__}:Sign")
gym.register("SignClass-v0", entry_point=Sign)
