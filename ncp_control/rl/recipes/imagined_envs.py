"""Environments of a training that a model imagines."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from ncp_control.rl.recipes.env_making import make_env, wrap
from ncp_control.rl.recipes.recipe import Recipe


class Imagined(Protocol):
    """What imagines episodes in place of an environment, such as `Branches` of `ncp_control.dynamics`."""

    def about(self) -> dict[str, Any]:
        """Returns what sets it apart from any other, as JSON values."""

    def episodes(self, env: gym.Env[Any, Any], count: int, name: str) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Returns episodes side by side, all equally long, that show and accept what an environment does.

        :param env: the environment
        :param count: number of episodes
        :param name: the environment's name, for messages
        """


def imagined_envs(inside: Imagined, recipe: Recipe, count: int) -> ImaginedVecEnv:
    """Makes episodes in place of a recipe's environments, with the recipe's wrappers around them.

    :param inside: imagines them
    :param recipe: what is trained
    :param count: number of episodes at a time
    """
    with closing(make_env(recipe.env, (), recipe.env_kwargs)) as env:
        episodes: Any = inside.episodes(env, count, recipe.env)
    for described in recipe.env_wrapper:
        episodes = wrap(episodes, described)
    return ImaginedVecEnv(episodes)


class ImaginedVecEnv(VecEnv):
    """Episodes of a model, all of which are equally long, as a vector environment of Stable-Baselines3.

    :param episodes: they end together
    """

    def __init__(self, episodes: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self._episodes = episodes
        super().__init__(episodes.num_envs, episodes.single_observation_space, episodes.single_action_space)
        self._actions, self._rewards, self._steps = np.empty(0), np.zeros(self.num_envs), 0

    def reset(self) -> VecEnvObs:
        """Begins all episodes."""
        # one seed for all, because the episodes are drawn together, and for this reset alone, as in Stable-Baselines3
        observations: VecEnvObs = self._episodes.reset(seed=self._seeds[0])[0]
        self._reset_seeds()
        self._rewards, self._steps = np.zeros(self.num_envs), 0
        return observations

    def step_async(self, actions: Any) -> None:
        """Keeps actions for the next step."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Takes a step; when all episodes are over, they begin anew."""
        observations, rewards, _, truncated, _ = self._episodes.step(self._actions)
        if not np.isfinite(rewards).all():
            raise ValueError("the model predicts numbers that are not finite: try shorter branches")
        self._rewards += rewards
        self._steps += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if truncated.all():
            for k, info in enumerate(infos):
                info |= {"TimeLimit.truncated": True, "terminal_observation": observations[k].copy()}
                # what a Monitor would note, except for the time
                info["episode"] = {"r": float(self._rewards[k]), "l": self._steps, "t": 0.0}
            observations = self.reset()
        return observations, rewards.astype(np.float32), truncated, infos

    def close(self) -> None:
        """Closes the episodes."""
        self._episodes.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of the episodes, once for each."""
        return [getattr(self._episodes, attr_name)] * len(self._get_indices(indices))  # type: ignore[arg-type]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Episodes of a model have no attributes of their own."""
        raise AttributeError("the episodes of a model are computed together: none has an attribute of its own")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **arguments: Any) -> list[Any]:
        """Episodes of a model have no methods of their own."""
        raise AttributeError("the episodes of a model are computed together: none has a method of its own")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """No episode has a wrapper of its own."""
        return [False] * len(self._get_indices(indices))  # type: ignore[arg-type]
