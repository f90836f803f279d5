"""A vector environment that steps MuJoCo bodies without the cost of one Python environment for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from ncp_envs.mujoco_bodies import MujocoStepper, obstacle
from ncp_envs.mujoco_layers import LAYERS, ActionLayer
from ncp_envs.mujoco_tasks import StepOutcome

Array = NDArray[Any]


class MujocoVectorEnv(SyncVectorEnv):
    """Gymnasium's `SyncVectorEnv` for its MuJoCo bodies, faster: everything it returns is equal, bit for bit.

    The environments reset their bodies themselves. In a step, the simulator moves each body, and one pass over arrays
    computes what all of them observe and earn. It steps the Ant, the HalfCheetah, the Hopper, the Swimmer, the Walker2d
    and both inverted pendulums of version 5, also inside wrappers of this package that do not change actions. What it
    cannot step is refused with the reason; `obstacle(env)` of `ncp_envs.mujoco_bodies` returns it. The environments may
    differ in their models, such as masses or friction, but not in the settings of their task.

    :param env_fns: functions that make the environments, without Gymnasium's checker
    :param copy: return a copy of the observations, rather than the same array at every step
    :param observation_mode: as in `SyncVectorEnv`
    :param autoreset_mode: when an environment is reset whose episode has ended, as in `SyncVectorEnv`
    :param threads: the most threads that move the bodies, each at least eight; the numbers do not depend on it

    >>> import gymnasium as gym
    >>> make = lambda: gym.make("Hopper-v5", disable_env_checker=True)
    >>> envs = MujocoVectorEnv([make] * 3)
    >>> observations, infos = envs.reset(seed=0)
    >>> envs.step(envs.action_space.sample())[0].shape
    (3, 11)
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        copy: bool = True,
        observation_mode: Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int = 1,
    ) -> None:
        if threads < 1:
            raise ValueError(f"bodies are moved by at least one thread, not by {threads}")
        super().__init__(env_fns, copy=copy, observation_mode=observation_mode, autoreset_mode=autoreset_mode)
        # A changed action may have another dtype than the agent's, and the infos of a vector have one for all.
        layers = {kind: layer for kind, layer in LAYERS.items() if not issubclass(layer, ActionLayer)}
        reason = obstacle(self.envs, layers)
        if reason is not None:
            self.close()
            raise ValueError(f"MujocoVectorEnv cannot step these environments: {reason}, or use SyncVectorEnv")
        self._stepper = MujocoStepper(self.envs, layers, threads)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environments, or those that `options["reset_mask"]` names."""
        result = super().reset(seed=seed, options=options)
        self._stepper.refresh()
        return result

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of the environments."""
        super().set_attr(name, values)
        self._stepper.refresh()

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every body; those whose episodes ended before are reset as the autoreset mode says."""
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions must have shape {self.action_space.shape}, not {actions.shape}")
        mode, over = self.autoreset_mode, self._autoreset_envs
        if mode == AutoresetMode.DISABLED and over.any():
            places = np.flatnonzero(over).tolist()
            raise ValueError(f"the episodes of the environments {places} have ended: reset them first")
        resets = np.flatnonzero(over).tolist() if mode == AutoresetMode.NEXT_STEP else []
        chosen = [place for place in range(self.num_envs) if place not in resets]
        infos: dict[str, Any] = {}
        self._rewards[:], self._terminations[:], self._truncations[:] = 0.0, False, False
        if chosen:
            outcome = self._stepper.step(chosen, actions[chosen])
            self._observations[chosen], self._rewards[chosen] = outcome.observations, outcome.rewards
            self._terminations[chosen], self._truncations[chosen] = outcome.terminations, outcome.truncations
            if mode == AutoresetMode.SAME_STEP:
                resets = np.flatnonzero(self._terminations | self._truncations).tolist()
            infos = self._infos(chosen, outcome, resets)
        for place in resets:
            self._observations[place], info = self.envs[place].reset()
            infos = self._add_info(infos, info, place)
        self._env_obs = list(self._observations)
        self._autoreset_envs = self._terminations | self._truncations
        observations = self._observations.copy() if self.copy else self._observations
        return observations, self._rewards.copy(), self._terminations.copy(), self._truncations.copy(), infos

    def _infos(self, chosen: list[int], outcome: StepOutcome, resets: list[int]) -> dict[str, Any]:
        """Returns the infos of a step, where those of environments whose next episode begins now are the final ones."""
        infos: dict[str, Any] = {}
        ended = set(resets)
        rows = [row for row, place in enumerate(chosen) if place not in ended]
        places = [chosen[row] for row in rows]
        if rows:
            for key, values in outcome.info.items():
                infos[key] = np.zeros((self.num_envs, *values.shape[1:]), dtype=values.dtype)
                infos[key][places] = values[rows]
                infos[f"_{key}"] = np.zeros(self.num_envs, dtype=np.bool_)
                infos[f"_{key}"][places] = True
        if len(rows) < len(chosen):
            steps = outcome.rows()
            for row, place in enumerate(chosen):
                if place in ended:
                    final = {"final_obs": steps[row][0].copy(), "final_info": steps[row][4]}
                    infos = self._add_info(infos, final, place)
        return infos
