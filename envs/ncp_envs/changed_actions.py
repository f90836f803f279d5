"""Wrappers that change an agent's actions by a rule, in one environment or in each environment of a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_envs.vector_episodes import VectorEpisodes
from ncp_envs.vector_infos import join_infos

Info = dict[str, Any]


def joined(notes: Info, info: Info) -> Info:
    """Returns the info of a step with a rule's notes.

    An inner wrapper may have changed the action again, so its entries take precedence; but an action is a random one if
    any wrapper has drawn it.
    """
    found = notes | info
    if "is_random" in notes and "is_random" in info:
        found["is_random"] = notes["is_random"] | info["is_random"]
    return found


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
        return observation, reward, terminated, truncated, joined(notes, info)


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
        """Executes the actions that the rules return. An environment that is reset in this step executes none.

        Where an episode ends and the next one begins in one step, the entries are in the final info.
        """
        begins = self._episodes.begin_on_this_step()
        executed: list[Any] = []
        notes: list[Info] = []
        for rule, action, begin in zip(self._rules, actions, begins, strict=True):
            if begin:
                rule.start(None)
            changed, note = (action, {}) if begin else rule.act(action)
            executed.append(changed)
            notes.append(note)
        observations, rewards, terminations, truncations, infos = self.env.step(np.stack(executed))
        added: Info = {}
        for index, began in enumerate(self._episodes.step(terminations, truncations)):
            if began:
                self._rules[index].start(None)
            added = self._add_info(added, {"final_info": notes[index]} if began else notes[index], index)
        return observations, rewards, terminations, truncations, join_infos(added, infos)
