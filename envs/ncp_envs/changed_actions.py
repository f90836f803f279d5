"""Wrappers that execute another action than the agent's: one rule, for an environment or for each of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_envs.vector_episodes import VectorEpisodes

Info = dict[str, Any]


class ActionRule(ABC):
    """What becomes of one environment's actions."""

    @abstractmethod
    def start(self, seed: int | None) -> None:
        """Begin an episode; a seed begins the random stream anew, and without one it goes on."""

    @abstractmethod
    def act(self, action: Any) -> tuple[Any, Info]:
        """Return the action to execute, and what to add to the step's info."""


class ChangedActions(gym.Wrapper[Any, Any, Any, Any]):
    """One environment whose actions a rule changes.

    :param env: the environment
    :param rule: what becomes of its actions
    """

    def __init__(self, env: gym.Env[Any, Any], rule: ActionRule) -> None:
        super().__init__(env)
        self._rule = rule

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Reset the environment and begin the rule's next episode."""
        result = self.env.reset(seed=seed, options=options)
        self._rule.start(seed)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Execute what the rule makes of the action."""
        executed, notes = self._rule.act(action)
        observation, reward, terminated, truncated, info = self.env.step(executed)
        # A wrapper nearer to the environment knows better what was executed in the end.
        return observation, reward, terminated, truncated, notes | info


class VectorChangedActions(gym.vector.VectorWrapper):
    """A vector environment whose actions change by one rule for each of its environments.

    :param env: the vector environment
    :param rules: a rule for each
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], rules: Sequence[ActionRule]) -> None:
        super().__init__(env)
        self._rules = rules
        self._episodes = VectorEpisodes(env)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        """Reset the environments and begin their rules' next episodes."""
        begun = self._episodes.reset(seed, options)
        result = self.env.reset(seed=seed, options=options)
        for index, own in begun:
            self._rules[index].start(own)
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """Execute what the rules make of the actions; where the step is a reset, no action is."""
        begins = self._episodes.begin_on_this_step()
        executed: list[Any] = []
        notes: Info = {}
        for index, (rule, action) in enumerate(zip(self._rules, actions, strict=True)):
            if begins[index]:
                rule.start(None)
                executed.append(action)
            else:
                changed, note = rule.act(action)
                executed.append(changed)
                notes = self._add_info(notes, note, index)
        observations, rewards, terminations, truncations, infos = self.env.step(np.stack(executed))
        for rule, began in zip(self._rules, self._episodes.step(terminations, truncations), strict=True):
            if began:
                rule.start(None)
        return observations, rewards, terminations, truncations, notes | infos
