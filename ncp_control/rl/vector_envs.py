"""Gymnasium's vector environments, and EnvPool's, as environments of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn


class GymnasiumVecEnv(VecEnv):
    """A vector environment of Gymnasium or EnvPool as a `VecEnv` of Stable-Baselines3.

    Stable-Baselines3 wants an episode to end and the next one to begin in the same step. An environment in the mode
    `SAME_STEP` does so. In every other mode, those that ended are reset here, by the option `reset_mask`.

    :param envs: what `gymnasium.make_vec` or `envpool.make_gymnasium` returned
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self.envs: Any = envs  # its `reset` takes more than the type of `VectorEnv` says
        mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._same_step = AutoresetMode(mode) == AutoresetMode.SAME_STEP
        self._actions: Any = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        observations = self.reset()
        if (rows := _length(observations)) != self.num_envs:
            raise ValueError(
                f"{_name(envs)} returns {rows} of its {self.num_envs} environments at a time, and Stable-Baselines3 "
                "needs all of them: make it without batch_size"
            )
        if not self._same_step and self.num_envs > 1:
            self._reset_where(np.arange(self.num_envs) == 0, observations)  # refused now, and not at an episode's end

    def reset(self) -> VecEnvObs:
        """Resets all environments, with the seeds of `seed` if it was called."""
        seeds = list(self._seeds)
        observations: VecEnvObs = self.envs.reset(**({} if None in seeds else {"seed": seeds}))[0]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: Any) -> None:
        """Keeps the actions of the next step."""
        self._actions = np.asarray(actions, self.action_space.dtype)

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all environments, and begins the next episode where one has ended."""
        observations, rewards, terminated, truncated, extras = self.envs.step(self._actions)
        ended = terminated | truncated
        infos = _info_of_each(extras, self.num_envs)
        for k, info in enumerate(infos):
            info["TimeLimit.truncated"] = bool(truncated[k] and not terminated[k])
        if ended.any():
            for k in np.flatnonzero(ended).tolist():
                if self._same_step:
                    infos[k].update(infos[k].pop("final_info", {}))
                    infos[k]["terminal_observation"] = infos[k].pop("final_obs")
                else:
                    infos[k]["terminal_observation"] = _map(lambda part, k=k: part[k].copy(), observations)
            if not self._same_step:
                observations = self._reset_where(ended, observations)
        return observations, rewards.astype(np.float32), ended, infos

    def _reset_where(self, mask: Any, observations: Any) -> Any:
        """Returns the observations, new ones where the mask is set. EnvPool returns only these, Gymnasium all."""
        new, _ = self.envs.reset(options={"reset_mask": mask.copy()})
        only = _length(new) < self.num_envs

        def with_new(before: Any, after: Any) -> Any:
            if not only and not np.array_equal(before[~mask], after[~mask], equal_nan=before.dtype.kind == "f"):
                raise ValueError(
                    f"{_name(self.envs)} cannot reset some of its environments and leave the others alone: make it with"
                    ' gymnasium.make_vec(ID, num_envs=N, vectorization_mode="sync"), or in the mode SAME_STEP'
                )
            result = before.copy()
            result[mask] = after if only else after[mask]
            return result

        if isinstance(observations, dict):
            return {name: with_new(before, new[name]) for name, before in observations.items()}
        return with_new(observations, new)

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of each environment; EnvPool's have those of the whole."""
        envs = self.envs
        if not hasattr(envs, "get_attr"):
            values = [getattr(envs, attr_name)] * self.num_envs
        elif all(envs.call("has_wrapper_attr", attr_name)):  # without this, AsyncVectorEnv would end its processes
            values = envs.get_attr(attr_name)
        else:
            raise AttributeError(f"the environments have no attribute {attr_name!r}")
        return [values[k] for k in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of all environments."""
        self._all(indices, "set_attr")
        self.envs.set_attr(attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Calls a method of all environments."""
        self._all(indices, "env_method")
        return list(self.envs.call(method_name, *args, **kwargs))

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> list[bool]:
        """Returns whether each environment is in a wrapper; of one in another process nobody knows, so it is not."""
        members: Sequence[Any] = getattr(self.envs.unwrapped, "envs", [None] * self.num_envs)
        return [is_wrapped(members[k], wrapper_class) for k in self._get_indices(indices)]

    def _all(self, indices: VecEnvIndices, method: str) -> None:
        if list(self._get_indices(indices)) != list(range(self.num_envs)):
            raise ValueError(f"{method} of {type(self).__name__} reaches all environments: leave out indices")


def _info_of_each(extras: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Returns the infos of a vector environment as one dictionary for each environment."""
    infos: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, values in extras.items():
        if isinstance(values, dict):
            values = _info_of_each(values, count)
        elif key.startswith("_") or len(values) != count:
            continue
        present = extras.get(f"_{key}")  # EnvPool has every entry of every environment, and says nothing
        for k in range(count) if present is None else np.flatnonzero(present):
            infos[k][key] = values[k]
    return infos


def _map(function: Any, observations: Any) -> Any:
    if isinstance(observations, dict):
        return {name: function(part) for name, part in observations.items()}
    return function(observations)


def _length(observations: Any) -> int:
    return len(next(iter(observations.values())) if isinstance(observations, dict) else observations)


def _name(envs: Any) -> str:
    return type(envs.unwrapped).__name__
