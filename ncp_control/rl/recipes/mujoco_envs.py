"""Environments of a training, side by side; MuJoCo bodies are stepped together where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from ncp_control.data.episodes import stepper_of


def monitored(envs: Sequence[gym.Env[Any, Any]]) -> DummyVecEnv:
    """Returns environments side by side, each in a `Monitor`.

    The result is the same whether they are stepped together or one after another.
    """
    stepper = stepper_of(envs)
    if stepper is None:
        return DummyVecEnv([lambda env=env: Monitor(env) for env in envs])  # type: ignore[misc]
    return BodyVecEnv([Prepared(env) for env in envs], stepper)


class Prepared(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose next step was taken outside of it.

    :param env: the environment
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.result: Any = None

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The spec of the environment inside."""
        return self.env.spec  # a gym.Wrapper would add itself to it

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns the result of the step that was taken."""
        result: tuple[Any, Any, bool, bool, dict[str, Any]] = self.result
        return result


class BodyVecEnv(DummyVecEnv):
    """Stable-Baselines3's `DummyVecEnv` of monitored MuJoCo bodies, which are stepped in one pass over arrays.

    :param envs: the environments
    :param stepper: steps what is inside of them
    """

    def __init__(self, envs: Sequence[Prepared], stepper: Any) -> None:
        super().__init__([lambda env=env: Monitor(env) for env in envs])  # type: ignore[misc]
        self._prepared, self._stepper = envs, stepper

    def reset(self) -> VecEnvObs:
        """Resets all environments."""
        self._stepper.refresh()
        return super().reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all bodies; the end of an episode is left to its `Monitor`."""
        actions: Any = self.actions
        outcome = self._stepper.step(range(self.num_envs), actions)
        rows = outcome.rows()
        observations = np.array(outcome.observations, dtype=self.buf_obs[None].dtype)  # type: ignore[index]
        dones = outcome.terminations | outcome.truncations
        cut = (outcome.truncations & ~outcome.terminations).tolist()
        infos = [row[4] for row in rows]
        ended, rewards = dones.tolist(), outcome.rewards.tolist()
        monitors: Any = self.envs
        for k, (monitor, info) in enumerate(zip(monitors, infos, strict=True)):
            info["TimeLimit.truncated"] = cut[k]
            if ended[k]:
                self._prepared[k].result = rows[k]
                monitor.step(actions[k])
                info["terminal_observation"] = rows[k][0].copy()
                observations[k], self.reset_infos[k] = monitor.reset()
            else:
                # what `Monitor.step` does within an episode
                monitor.rewards.append(float(rewards[k]))
                monitor.total_steps += 1
        return observations, outcome.rewards.astype(np.float32), dones, infos
