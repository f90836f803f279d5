"""A wrapper that executes an agent's actions some steps late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, check_count, with_more
from ncp_envs.changed_actions import ActionRule, ChangedActions, Info, VectorChangedActions
from ncp_envs.names import observation_names
from ncp_envs.streams import RandomStream, Stream, count_layers, offset_seed, wrappers_of

Steps = int | Sequence[int]
OPTION = "delay"  # of a reset, which names the delay of the episode


class _Delay(ActionRule):
    def __init__(self, space: gym.Space[Any], steps: Steps, first: Any, layer: int, seed: int | None) -> None:
        self.range = _checked_range(steps)
        self._first = _first_action(space, first)
        self._random = RandomStream(Stream.ACTION_DELAY, layer, seed)
        self.steps = 0
        self._waiting: deque[Any] = deque()
        self.start(None)

    def start(self, seed: int | None) -> None:
        low, high = self.range
        if seed is not None:
            self._random.restart(seed)
        self.wait(low if low == high else int(self._random.generator.integers(low, high + 1)))

    def wait(self, steps: int) -> None:
        """Makes this episode's actions so many steps late."""
        self.steps, self._waiting = steps, deque([self._first] * steps)

    def act(self, action: Any) -> tuple[Any, Info]:
        self._waiting.append(np.array(action)[()])
        executed = self._waiting.popleft()
        return np.array(executed)[()], {"executed_action": np.array(executed)[()]}


def _checked_range(steps: Any) -> tuple[int, int]:
    if np.ndim(steps) == 0:
        low = high = check_count("ActionDelay", "steps", steps, least=0)
        return low, high
    if np.shape(steps) != (2,):
        raise ValueError(f"ActionDelay needs a number of steps, or a range (least, most), and got {steps!r}")
    low, high = (check_count("ActionDelay", "steps", end, least=0) for end in steps)
    if low > high:
        raise ValueError(f"ActionDelay needs a range (least, most) of steps, and got {steps!r}")
    return low, high


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

    From a range of steps, every episode draws its own delay, from a random stream of this wrapper's own.
    `reset(seed=s)` restarts the stream from s; without a seed the stream continues. `reset(options={"delay": n})` makes
    the episode's delay n.

    :param env: an environment whose actions are arrays or numbers
    :param steps: the delay in steps, or its range (least, most); 0 is no delay
    :param first: the action for the first steps of an episode, until the agent's first action is due; None means zeros,
        and is allowed for a `Box` only
    :param told: also show the agent how many steps late its actions are, after the environment's own entries
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = ActionDelay(gym.make("Pendulum-v1"), steps=1)
    >>> _ = env.reset(seed=0)
    >>> [float(env.step([torque])[-1]["executed_action"][0]) for torque in (1.0, 2.0, -1.0)]
    [0.0, 1.0, 2.0]
    """

    _rule: _Delay

    def __init__(
        self,
        env: gym.Env[Any, Any],
        steps: Steps,
        first: Any = None,
        told: bool = False,
        seed: int | None = None,
    ) -> None:
        rule = _Delay(env.action_space, steps, first, count_layers(env, ActionDelay), seed)
        recorded = list(rule.range) if np.ndim(steps) else steps
        RecordConstructorArgs.__init__(
            self, steps=recorded, first=None if first is None else np.asarray(first).tolist(), told=told, seed=seed
        )
        super().__init__(env, rule)
        self._told = told
        if told:
            box = check_box("ActionDelay", env.observation_space, vector=True, floating=True)
            self.observation_space = with_more(box, 0, np.inf)

    @property
    def is_still(self) -> bool:
        """Whether no action is ever late, so that the wrapper remembers nothing."""
        return self._rule.range == (0, 0)

    @property
    def observation_names(self) -> list[str]:
        """The names of the environment's entries, followed by that of the delay if it is told."""
        return [*observation_names(self.env), *["steps late"] * self._told]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment and begins the next episode's delay."""
        observation, info = super().reset(seed=seed, options=options)
        if options and OPTION in options:
            self._rule.wait(check_count("ActionDelay", "the option delay", options[OPTION], least=0))
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Executes the action that is due."""
        observation, *rest = super().step(action)
        return self._shown(observation), *rest

    def _shown(self, observation: Any) -> Any:
        return np.append(observation, observation.dtype.type(steps_late(self))) if self._told else observation


def steps_late(env: Any) -> int:
    """Returns how many steps late an action of this episode is executed, by all delays in a chain of wrappers."""
    return sum(one._rule.steps for one in delays_of(env))


def delays_of(env: Any) -> list[ActionDelay]:
    """Returns the delays in a chain of wrappers."""
    return [one for one in wrappers_of(env) if isinstance(one, ActionDelay)]


class VectorActionDelay(VectorChangedActions):
    """`ActionDelay` for a vector environment: each environment behaves as if it were wrapped alone.

    An environment that is reset in a step executes no action, and the action given to it is discarded.

    :param env: the vector environment
    :param steps: the delay in steps, or its range
    :param first: the action of one environment for the first steps of an episode; None means zeros
    :param seed: the seed of the streams; environment i gets `seed + i`, as in a vector `reset`
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], steps: Steps, first: Any = None, seed: int | None = None
    ) -> None:
        layer, space = count_layers(env, VectorActionDelay), env.single_action_space
        rules = [_Delay(space, steps, first, layer, offset_seed(seed, index)) for index in range(env.num_envs)]
        super().__init__(env, rules)
