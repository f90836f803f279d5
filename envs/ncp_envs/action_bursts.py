"""A wrapper that disturbs an agent for several steps at a time."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.changed_actions import ChangedActions
from ncp_envs.random_actions import Overwrite
from ncp_envs.streams import Stream, count_layers

HELD = 5  # steps for which random actions are held at most


class _Bursts(Overwrite):
    """Executes other actions than the agent's for some steps, which all count as random."""

    def __init__(
        self, space: gym.Space[Any], probability: float, shortest: int, longest: int, layer: int, seed: int | None
    ) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"a burst has at least one step and at most `longest`, got {shortest} to {longest}")
        self._lengths = (shortest, longest)
        self._begin()
        super().__init__("ActionBursts", Stream.ACTION_BURSTS, space, probability, layer, seed)

    def _begin(self) -> None:
        self._given: list[Any] = []  # the agent's actions in this episode
        self._left, self._place, self._held = 0, -1, 1
        self._action: Any = None

    def start(self, seed: int | None) -> None:
        super().start(seed)
        self._begin()

    def draw(self, action: Any) -> tuple[Any, bool]:
        self._given.append(np.array(action))
        random = self._random.generator
        if not self._left and random.random() < self._probability:
            self._left = int(random.integers(self._lengths[0], self._lengths[1] + 1))
            earlier = len(self._given) - 1
            again = earlier > 0 and random.random() < 0.5
            self._place = int(random.integers(earlier)) if again else -1
            self._held, self._action = int(random.integers(1, HELD + 1)), None
        if not self._left:
            return action, False
        if self._place >= 0:
            executed = self._given[self._place]
            self._place += 1
        else:
            if self._action is None or self._left % self._held == 0:
                self._action = self._space.sample()
            executed = self._action
        self._left -= 1
        return np.array(executed)[()], True


class ActionBursts(ChangedActions, RecordConstructorArgs):
    """At each step, with some probability, a burst begins: for some steps, other actions are executed than the agent's.

    One half of the bursts repeat what the agent did at an earlier moment of the episode. The others are random actions,
    each held for one to five steps. A model of the dynamics that has seen bursts knows what actions do, rather than
    what an agent does in which state.

    `info["executed_action"]` and `info["is_random"]` are as in `RandomActionOverwrite`: an action of a burst counts as
    random. `reset(seed=s)` restarts the wrapper's own random stream.

    :param env: an environment whose actions `RandomActionOverwrite` could draw
    :param probability: the probability that a burst begins at a step outside of bursts
    :param shortest: the least number of steps of a burst
    :param longest: the greatest number of steps of a burst
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = ActionBursts(gym.make("Pendulum-v1"), probability=1.0)
    >>> _ = env.reset(seed=0)
    >>> env.step([0.0])[-1]["is_random"]
    True
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        probability: float = 0.02,
        shortest: int = 5,
        longest: int = 20,
        seed: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, probability=probability, shortest=shortest, longest=longest, seed=seed)
        layer = count_layers(env, ActionBursts)
        super().__init__(env, _Bursts(env.action_space, probability, shortest, longest, layer, seed))
