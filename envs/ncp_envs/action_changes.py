"""A wrapper that makes fast changes of an agent's actions cost reward."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import is_finite

Info = dict[str, Any]


class ActionChangeCost(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Subtracts `weight * |a - b|^2` from every reward, where b is the previous action and a this one.

    An agent that learns under it acts calmly. The cost is in `info["action_change_cost"]`, and zero in the first step
    of an episode. Put `PreviousAction` around it for an agent without a memory: the cost depends on that action.

    :param env: an environment whose actions are arrays of numbers
    :param weight: the weight of the cost

    >>> import gymnasium as gym
    >>> env = ActionChangeCost(gym.make("Pendulum-v1"), weight=0.1)
    >>> _ = env.reset(seed=0)
    >>> [round(env.step([torque])[-1]["action_change_cost"], 3) for torque in (1.0, 2.0, -1.0)]
    [0.0, 0.1, 0.9]
    """

    def __init__(self, env: gym.Env[Any, Any], weight: float) -> None:
        RecordConstructorArgs.__init__(self, weight=weight)
        super().__init__(env)
        if not isinstance(env.action_space, gym.spaces.Box):
            raise TypeError(f"ActionChangeCost needs actions from a Box, and got {env.action_space}")
        if not is_finite(weight) or weight < 0:
            raise ValueError(f"ActionChangeCost needs a weight that is finite and not negative, and got {weight!r}")
        self._weight = float(weight)
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment."""
        self._last = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Steps the environment and subtracts the cost."""
        cost = self.cost_of(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward) - cost, terminated, truncated, {"action_change_cost": cost} | info

    def cost_of(self, action: Any) -> float:
        """Returns what an action costs, which is the previous one from here on."""
        now, last = np.array(action, dtype=np.float64), self._last
        self._last = now
        return 0.0 if last is None else self._weight * float(np.square(now - last).sum())
