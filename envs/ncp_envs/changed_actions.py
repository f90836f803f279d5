"""Wrappers that change an agent's actions by a rule, in one environment or in each environment of a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_envs.vector_episodes import VectorEpisodes

Info = dict[str, Any]


class ActionRule(ABC):
    """Decides which actions one environment executes."""

    @abstractmethod
    def start(self, seed: int | None) -> None:
        """Begins an episode. A seed restarts the random stream; without a seed the stream continues."""

    @abstractmethod
    def act(self, action: Any) -> tuple[Any, Info]:
        """Returns the action to execute, and entries for the step's info."""


class ChangedActions(gym.Wrapper[Any, Any, Any, Any]):
    """One environment whose actions a rule changes.

    :param env: the environment
    :param rule: decides which actions are executed
    """

    def __init__(self, env: gym.Env[Any, Any], rule: ActionRule) -> None:
        super().__init__(env)
        self._rule = rule

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment and begins the rule's next episode."""
        result = self.env.reset(seed=seed, options=options)
        self._rule.start(seed)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Executes the action that the rule returns."""
        executed, notes = self._rule.act(action)
        observation, reward, terminated, truncated, info = self.env.step(executed)
        # An inner wrapper may have changed the action again, so its entries take precedence.
        return observation, reward, terminated, truncated, notes | info


class VectorChangedActions(gym.vector.VectorWrapper):
    """A vector environment in which each environment has a rule that changes its actions.

    :param env: the vector environment
    :param rules: one rule for each environment
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], rules: Sequence[ActionRule]) -> None:
        super().__init__(env)
        self._rules = rules
        self._episodes = VectorEpisodes(env)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environments and begins their rules' next episodes."""
        begun = self._episodes.reset(seed, options)
        result = self.env.reset(seed=seed, options=options)
        for index, own in begun:
            self._rules[index].start(own)
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """Executes the actions that the rules return. An environment that is reset in this step executes none."""
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
