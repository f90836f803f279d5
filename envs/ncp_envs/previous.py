"""A wrapper that adds the previous action, and its reward, to the observation."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, with_more
from ncp_envs.names import observation_names

Info = dict[str, Any]


class PreviousAction(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds the previous action, and optionally its reward, to every observation.

    An agent with memory can learn from them how its actions change the observations. They follow the environment's own
    entries: first the action as it was given to this wrapper (a discrete action as one-hot), then the reward. Both are
    zero in an episode's first observation. There is no form for vector environments: wrap each environment alone.

    :param env: an environment whose observations are vectors of floating-point numbers
    :param reward: also add the reward

    >>> import gymnasium as gym
    >>> env = PreviousAction(gym.make("Pendulum-v1"), reward=True)
    >>> _ = env.reset(seed=0)
    >>> observation, reward, *_ = env.step([0.5])
    >>> observation.shape, observation[3].item(), bool(observation[4] == np.float32(reward))
    ((5,), 0.5, True)
    """

    def __init__(self, env: gym.Env[Any, Any], reward: bool = False) -> None:
        RecordConstructorArgs.__init__(self, reward=reward)
        super().__init__(env)
        box = check_box("PreviousAction", env.observation_space, vector=True, floating=True)
        actions = flatten_space(env.action_space)
        if not isinstance(actions, gym.spaces.Box):
            raise TypeError(f"PreviousAction needs actions that are numbers or choices, and got {env.action_space}")
        self._reward = reward
        self._zeros = np.zeros(actions.shape[0] + reward, dtype=box.dtype)
        more = [np.inf] * reward
        low, high = (
            np.append(np.minimum(actions.low, 0), np.negative(more)),
            np.append(np.maximum(actions.high, 0), more),
        )
        self.observation_space = with_more(box, low, high)

    @property
    def observation_names(self) -> list[str]:
        """The names of the environment's entries, followed by those of the previous action and its reward."""
        count = len(self._zeros) - self._reward
        actions = ["previous action"] if count == 1 else [f"previous action {k}" for k in range(count)]
        return [*observation_names(self.env), *actions, *["previous reward"] * self._reward]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment; the previous action and its reward are zero."""
        observation, info = self.env.reset(seed=seed, options=options)
        return np.concatenate([observation, self._zeros]), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Steps the environment, and adds the action and its reward to the observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        chosen: Any = flatten(self.env.action_space, np.asarray(action))
        done = np.append(chosen, [float(reward)] * self._reward)
        return np.concatenate([observation, done.astype(observation.dtype)]), reward, terminated, truncated, info
