"""The parts that recurrent PPO, A2C, SAC and TD3 have in common."""

from __future__ import annotations

import warnings
from typing import Any, cast

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize
from torch.optim import Optimizer

from ncp_control.base.callers import level_outside
from ncp_control.rl.diverged import Diverged, check_training, check_weights, has_diverged
from ncp_control.rl.policies.circuit import CELL_OF_0_2, DEFAULT_CELL
from ncp_control.rl.policies.elapsed import KEY, plain_keys
from ncp_control.rl.vector_envs import GymnasiumVecEnv


def warn_without_gpu(model: BaseAlgorithm, device: torch.device | str) -> None:
    """Warns that a model computes on the CPU although a GPU was asked for: Stable-Baselines3 does so without a word."""
    if device != "auto" and torch.device(device).type == "cuda" and model.device.type == "cpu":
        warnings.warn(
            f"there is no GPU that torch can use here, so {type(model).__name__} computes on the CPU: choose device "
            "cpu, or auto",
            stacklevel=level_outside(),
        )


class CircuitAlgorithm(BaseAlgorithm):
    """An algorithm of Stable-Baselines3 whose policy is made of circuits.

    It refuses policies of other names and environments whose elapsed time is normalised, lets groups of parameters have
    learning rates of their own, and says why a training has diverged.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Loading makes a model without its parts, then sets the attributes in the file; files of 0.2.0 lack this one.
        self.default_cell = DEFAULT_CELL if kwargs.get("_init_setup_model", True) else CELL_OF_0_2
        super().__init__(*args, **kwargs)
        warn_without_gpu(self, kwargs.get("device", "auto"))

    def _setup_model(self) -> None:
        if self.default_cell != DEFAULT_CELL and issubclass(self.policy_class, tuple(self.policy_aliases.values())):
            self.policy_kwargs = {"cell": self.default_cell, **self.policy_kwargs}
        super()._setup_model()  # type: ignore[safe-super]  # of the algorithm that this class is mixed into

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if policy_name not in self.policy_aliases:
            raise ValueError(f'unknown policy {policy_name!r}: {type(self).__name__} of ncp_control runs "NCPPolicy"')
        return super()._get_policy_from_name(policy_name)

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """Trains as Stable-Baselines3 does; a policy that becomes NaN or infinite raises `Diverged`."""
        try:
            learnt = super().learn(*args, **kwargs)  # type: ignore[safe-super]
            check_weights(self)
            return learnt
        except Exception as error:
            if not isinstance(error, Diverged) and has_diverged(self, error):
                raise Diverged(self) from error
            raise

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Trains as Stable-Baselines3 does, and ends the training when weights are not finite."""
        super().train(*args, **kwargs)  # type: ignore[misc]
        check_training(self)

    def _update_learning_rate(self, optimizers: list[Optimizer] | Optimizer) -> None:
        """Sets the schedule's learning rate, multiplied by the `lr_scale` of every group of parameters that has one."""
        super()._update_learning_rate(optimizers)
        # the schedule has just set all groups alike, so this does not multiply a rate twice
        for optimizer in [optimizers] if isinstance(optimizers, Optimizer) else optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= group.get("lr_scale", 1.0)

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        """Wraps an environment as Stable-Baselines3 does; every algorithm calls it for each environment it is given.

        A vector environment of Gymnasium becomes one of Stable-Baselines3.
        """
        if isinstance(env, VectorEnv):
            env = VecMonitor(GymnasiumVecEnv(env)) if monitor_wrapper else GymnasiumVecEnv(env)
        wrapped = BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)
        inner: Any = wrapped
        while isinstance(inner, VecEnvWrapper):
            if isinstance(inner, VecNormalize) and inner.norm_obs and KEY in (inner.norm_obs_keys or ()):
                keys = plain_keys(cast("spaces.Dict", inner.observation_space))
                raise ValueError(
                    f"the entry {KEY!r} of the observations is the time for the cells, and VecNormalize would make it "
                    f"negative: name the entries to normalise, VecNormalize(env, norm_obs_keys={keys})"
                )
            inner = inner.venv
        return wrapped
