"""The normalisation of observations that a policy was trained with, without Stable-Baselines3's environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[Any]


class Normalizer:
    """Normalises observations as `VecNormalize` does: `clip((x - mean) / sqrt(var + epsilon))`.

    :param statistics: the mean and the variance for every normalised entry of a dictionary; for vectors the one key ""
    :param epsilon: added to the variances
    :param clip: normalised numbers are clipped to [-clip, clip]
    :ivar statistics: as given
    :ivar scales: for every key of `statistics` the mean, and the standard deviation that the difference is divided by
    """

    def __init__(self, statistics: dict[str, tuple[Array, Array]], epsilon: float, clip: float) -> None:
        self.statistics, self.epsilon, self.clip = statistics, epsilon, clip
        self.scales = {key: (mean, np.sqrt(var + epsilon)) for key, (mean, var) in statistics.items()}

    @classmethod
    def read(cls, described: dict[str, Any], tensors: dict[str, torch.Tensor], space: Any) -> Normalizer:
        """Makes a normaliser from the contents of a policy file.

        :param described: the JSON values that `normalization_of` gave
        :param tensors: the file's tensors by name
        :param space: the policy's observation space
        """
        statistics = {}
        keys = described.get("keys", [""])
        if not isinstance(space, spaces.Dict) and keys != [""]:
            raise ValueError(f"it normalises the entries {keys} of dictionaries, and the observations are vectors")
        for key in keys:
            suffix = f".{key}" if key else ""
            mean, var = (tensors[f"normalize.{name}{suffix}"].numpy() for name in ("mean", "var"))
            shape = (space[key] if key else space).shape
            if mean.shape != shape or var.shape != shape:
                raise ValueError(
                    f"it normalises observations of shape {shape} by statistics of shapes {mean.shape} and {var.shape}"
                )
            statistics[key] = mean, var
        return cls(statistics, float(described["epsilon"]), float(described["clip"]))

    def __call__(self, observation: Any) -> Any:
        """Returns normalised observations."""
        if not isinstance(observation, dict):
            return self._one("", observation)
        return {key: self._one(key, value) if key in self.scales else value for key, value in observation.items()}

    def _one(self, key: str, values: Array) -> Array:
        mean, scale = self.scales[key]
        return np.clip((values - mean) / scale, -self.clip, self.clip).astype(np.float32)
