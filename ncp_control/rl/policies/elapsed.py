"""How the time between two observations reaches a cell: from an observation's entry `elapsed` to a column of its own.

`ncp_envs.IrregularTime(observe_elapsed="apart")` shows observations and the elapsed time as a dictionary. The time goes
round the features extractor, and is the last column of what a `Circuit` reads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize
from torch import Tensor

KEY = "elapsed"


def is_timed(space: spaces.Space[Any]) -> bool:
    """Whether observations have an entry `elapsed`; refused if it is not one number."""
    if not isinstance(space, spaces.Dict) or KEY not in space.spaces:
        return False
    if space[KEY].shape != (1,) or len(space.spaces) < 2:
        raise ValueError(
            f"an observation's entry {KEY!r} is the time since the last one, of shape (1,), beside other entries; "
            f"this space is {space}"
        )
    return True


class TimedAlgorithm(BaseAlgorithm):
    """An algorithm that refuses an environment whose elapsed time is normalised with the observations."""

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        """As Stable-Baselines3 does, wherever an algorithm is given an environment."""
        wrapped = BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)
        inner: Any = wrapped
        while isinstance(inner, VecEnvWrapper):
            if isinstance(inner, VecNormalize) and inner.norm_obs and KEY in (inner.norm_obs_keys or ()):
                others = plain_keys(cast("spaces.Dict", inner.observation_space))
                raise ValueError(
                    f"the entry {KEY!r} of the observations is the cells' time, which VecNormalize makes negative: say "
                    f"which entries it should normalise, VecNormalize(env, norm_obs_keys={others})"
                )
            inner = inner.venv
        return wrapped


def plain_keys(space: spaces.Dict) -> list[str]:
    """The entries that `VecNormalize` can normalise, and that are not the time."""
    return [key for key, entry in space.spaces.items() if key != KEY and isinstance(entry, spaces.Box)]


class TimedExtractor(BaseFeaturesExtractor):
    """Another extractor's features of everything but the elapsed time, and the time as the last column.

    :param observation_space: with an entry `elapsed`
    :param kind: the other extractor's class
    :param settings: its arguments after the space
    """

    def __init__(self, observation_space: spaces.Dict, kind: Any, settings: dict[str, Any]) -> None:
        entries = ((key, space) for key, space in observation_space.spaces.items() if key != KEY)
        rest = spaces.Dict(OrderedDict(entries))
        inner = kind(rest, **settings)
        super().__init__(observation_space, inner.features_dim + 1)
        self.inner = inner

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """(B, F + 1)."""
        rest = {key: value for key, value in observations.items() if key != KEY}
        return torch.cat([self.inner(rest), observations[KEY]], dim=-1)
