"""Shifts and scales that bring each feature to mean 0 and standard deviation 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.rollouts import Rollouts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaler:
    """Scales each feature to `(x - mean) / std`. The std of a feature that never changes is 1.

    :param mean: (n,)
    :param std: (n,), positive
    """

    mean: Array
    std: Array

    @classmethod
    def fit(cls, train: Rollouts, what: str = "observations") -> Scaler:
        """Computes the mean and the standard deviation over all steps of the training rollouts.

        :param train: the training part only, because test data must not influence a model's inputs
        :param what: "observations", "changes" (from one observation to the next), or "actions"
        """
        if what not in ("observations", "changes", "actions"):
            raise ValueError(f"a scaler is fitted to observations, changes or actions, not to {what!r}")
        if what == "changes":
            values = [np.diff(np.asarray(rollout.observations, np.float64), axis=0) for rollout in train]
        else:
            values = [getattr(rollout, what) for rollout in train]
        if any(value is None for value in values):
            raise ValueError("these rollouts have no actions")
        rows = np.concatenate([np.asarray(value, np.float64).reshape(len(value), -1) for value in values])
        std = std_of(rows)
        still = std <= 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=0))
        return cls(rows.mean(axis=0), np.where(still, 1.0, std))

    def transform(self, values: Any) -> Any:
        """Scales values (..., n), an array or a tensor."""
        return (values - self._like(self.mean, values)) / self._like(self.std, values)

    def inverse(self, values: Any) -> Any:
        """Returns scaled values (..., n) to their original scale."""
        return values * self._like(self.std, values) + self._like(self.mean, values)

    @staticmethod
    def _like(numbers: Array, values: Any) -> Any:
        """Converts `numbers` to a tensor like `values`, unless `values` is an array."""
        return numbers if isinstance(values, np.ndarray) else values.new_tensor(numbers)


def std_of(rows: Array) -> Array:
    """Returns the standard deviation of each column, also where the squares of its values would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        std = rows.std(axis=0)
    if np.isfinite(std).all():
        return np.asarray(std)
    largest = np.maximum(np.abs(rows).max(axis=0), 1.0)
    return np.asarray((rows / largest).std(axis=0) * largest)
