"""A wrapper that executes an agent's actions some steps late."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_count
from ncp_envs.changed_actions import ActionRule, ChangedActions, Info, VectorChangedActions


class _Delay(ActionRule):
    def __init__(self, space: gym.Space[Any], steps: int, first: Any) -> None:
        self._steps = check_count("ActionDelay", "steps", steps, least=0)
        self._first = _first_action(space, first)
        self._waiting: deque[Any] = deque()
        self.start(None)

    def start(self, seed: int | None) -> None:
        self._waiting = deque([self._first] * self._steps)

    def act(self, action: Any) -> tuple[Any, Info]:
        self._waiting.append(np.array(action)[()])
        executed = self._waiting.popleft()
        return np.array(executed)[()], {"executed_action": np.array(executed)[()]}


def _first_action(space: gym.Space[Any], first: Any) -> Any:
    if first is None:
        if not isinstance(space, gym.spaces.Box):
            raise ValueError(f"ActionDelay needs `first`, because no action of {space} means doing nothing")
        first = np.zeros(space.shape)
    action = np.array(first, dtype=space.dtype)[()]
    if action not in space:
        raise ValueError(f"ActionDelay cannot begin with {first}, which is not an action of {space}")
    return action


class ActionDelay(ChangedActions, RecordConstructorArgs):
    """Executes the action that was given `steps` steps ago, and reports it as `info["executed_action"]`.

    :param env: an environment whose actions are arrays or numbers
    :param steps: the delay in steps; 0 is no delay
    :param first: the action for the first steps of an episode, until the agent's first action is due; None means zeros,
        and is allowed for a `Box` only

    >>> import gymnasium as gym
    >>> env = ActionDelay(gym.make("Pendulum-v1"), steps=1)
    >>> _ = env.reset(seed=0)
    >>> [float(env.step([torque])[-1]["executed_action"][0]) for torque in (1.0, 2.0, -1.0)]
    [0.0, 1.0, 2.0]
    """

    def __init__(self, env: gym.Env[Any, Any], steps: int, first: Any = None) -> None:
        RecordConstructorArgs.__init__(self, steps=steps, first=None if first is None else np.asarray(first).tolist())
        super().__init__(env, _Delay(env.action_space, steps, first))


class VectorActionDelay(VectorChangedActions):
    """`ActionDelay` for a vector environment: each environment behaves as if it were wrapped alone.

    An environment that is reset in a step executes no action, and the action given to it is discarded.

    :param env: the vector environment
    :param steps: the delay in steps
    :param first: the action of one environment for the first steps of an episode; None means zeros
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], steps: int, first: Any = None) -> None:
        super().__init__(env, [_Delay(env.single_action_space, steps, first) for _ in range(env.num_envs)])
