"""Wrappers that change the observations by a rule, of one environment or of each environment of a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from ncp_envs.vector_episodes import VectorEpisodes
from ncp_envs.vector_infos import join_infos

Info = dict[str, Any]


class ObservationRule(ABC):
    """Decides which observations one environment shows."""

    space: gym.Space[Any]

    @abstractmethod
    def start(self, seed: int | None) -> None:
        """Begins an episode. A seed restarts the random stream; without a seed the stream continues."""

    @abstractmethod
    def observe(self, observation: Any) -> tuple[Any, Info]:
        """Returns the observation to show, in new arrays, and entries for the info."""


class ChangedObservations(gym.Wrapper[Any, Any, Any, Any]):
    """One environment whose observations a rule changes.

    :param env: the environment
    :param rule: decides which observations are shown
    """

    def __init__(self, env: gym.Env[Any, Any], rule: ObservationRule) -> None:
        super().__init__(env)
        self._rule = rule
        self.observation_space = rule.space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment and shows what the rule makes of its first observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._rule.start(seed)
        shown, notes = self._rule.observe(observation)
        return shown, notes | info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Steps the environment and shows what the rule makes of its observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        shown, notes = self._rule.observe(observation)
        return shown, reward, terminated, truncated, notes | info


class VectorChangedObservations(gym.vector.VectorWrapper):
    """A vector environment in which each environment has a rule that changes its observations.

    :param env: the vector environment
    :param rules: one rule for each environment
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], rules: Sequence[ObservationRule]) -> None:
        super().__init__(env)
        self._rules = rules
        self._episodes = VectorEpisodes(env)
        self._shown: list[Any] = [None] * env.num_envs
        self.single_observation_space = rules[0].space
        self.observation_space = batch_space(rules[0].space, env.num_envs)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environments. Those that a mask excludes show their last observation again."""
        begun = self._episodes.reset(seed, options)
        observations, infos = self.env.reset(seed=seed, options=options)
        notes: Info = {}
        for index, own in begun:
            self._rules[index].start(own)
            notes = self._observe(index, observations[index], notes)
        return self._batch(), join_infos(notes, infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """Steps the environments and shows what the rules make of their observations, including the final ones."""
        begins = self._episodes.begin_on_this_step()
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        began = self._episodes.step(terminations, truncations)
        finals = np.full(self.num_envs, None, dtype=object)
        notes: Info = {}
        for index in range(self.num_envs):
            if began[index]:
                finals[index], note = self._rules[index].observe(infos["final_obs"][index])
                notes = self._add_info(notes, {"final_info": note}, index)
            if began[index] or begins[index]:
                self._rules[index].start(None)
            notes = self._observe(index, observations[index], notes)
        if began.any():
            infos = infos | {"final_obs": finals}
        return self._batch(), rewards, terminations, truncations, join_infos(notes, infos)

    def _observe(self, index: int, observation: Any, notes: Info) -> Info:
        self._shown[index], note = self._rules[index].observe(observation)
        return self._add_info(notes, note, index)

    def _batch(self) -> Any:
        space = self.single_observation_space
        batch: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, self._shown, batch)
