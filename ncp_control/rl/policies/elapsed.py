"""How the time between two observations reaches a cell: an observation's entry `elapsed` becomes the last feature.

`ncp_envs.IrregularTime(observe_elapsed="apart")` returns dictionaries with the observations and the elapsed time. The
time bypasses the features extractor, and is the last feature that a `Circuit` reads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

KEY = "elapsed"


def is_timed(space: spaces.Space[Any]) -> bool:
    """Whether observations have an entry `elapsed`; a space in which it is not one number is refused."""
    if not isinstance(space, spaces.Dict) or KEY not in space.spaces:
        return False
    if space[KEY].shape != (1,) or len(space.spaces) < 2:
        raise ValueError(
            f"the entry {KEY!r} must be the time since the last observation, of shape (1,), beside other entries; this "
            f"space is {space}"
        )
    return True


def plain_keys(space: spaces.Dict) -> list[str]:
    """Returns the entries that `VecNormalize` can normalise, without the elapsed time."""
    return [key for key, entry in space.spaces.items() if key != KEY and isinstance(entry, spaces.Box)]


class TimedExtractor(BaseFeaturesExtractor):
    """Another extractor's features of the other entries, and the elapsed time as the last feature.

    :param observation_space: a space with an entry `elapsed`
    :param kind: the class of the extractor for the other entries
    :param settings: its arguments after the space
    """

    def __init__(self, observation_space: spaces.Dict, kind: Any, settings: dict[str, Any]) -> None:
        entries = ((key, space) for key, space in observation_space.spaces.items() if key != KEY)
        rest = spaces.Dict(OrderedDict(entries))
        inner = kind(rest, **settings)
        super().__init__(observation_space, inner.features_dim + 1)
        self.inner = inner

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns the features, (B, F + 1)."""
        rest = {key: value for key, value in observations.items() if key != KEY}
        return torch.cat([self.inner(rest), observations[KEY]], dim=-1)
