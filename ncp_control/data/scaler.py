"""Shifts and scales that bring each feature to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.rollouts import Rollouts

Array = NDArray[np.float64]
BLOCK = 2**16  # rows that are read at once
STILL = 1e-12  # a standard deviation of so small a share of the largest value is rounding


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
        """Computes the mean and the standard deviation over all steps of the training rollouts, in one pass over them.

        :param train: the training part only, because test data must not influence a model's inputs
        :param what: "observations", "changes" (from one observation to the next), or "actions"
        """
        if what not in ("observations", "changes", "actions"):
            raise ValueError(f"a scaler is fitted to observations, changes or actions, not to {what!r}")
        if what == "actions" and any(rollout.actions is None for rollout in train):
            raise ValueError("these rollouts have no actions")
        mean, std, largest = moments(train, what)
        if not np.isfinite(std).all():  # squares have overflowed
            scale = np.maximum(largest, 1.0)
            mean, std = (values * scale for values in moments(train, what, scale)[:2])
        # the shift alone is then enough, and a division by rounding errors would make noise of it
        still = std <= STILL * np.maximum(1.0, largest)
        return cls(mean, np.where(still, 1.0, std))

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


def moments(train: Rollouts, what: str, scale: Any = 1.0) -> tuple[Array, Array, Array]:
    """Returns the mean, the standard deviation and the largest absolute value of each feature, in one pass.

    The moments of each block are added to those of the blocks before it, as Chan, Golub and LeVeque do (1979).

    :param scale: values are divided by it first
    """
    count, mean, square, largest = 0, np.float64(0), np.float64(0), np.float64(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in blocks(train, what):
            rows = rows / scale
            block_mean, added = rows.mean(axis=0), len(rows)
            change = block_mean - mean
            mean = mean + change * (added / (count + added))
            square = (
                square
                + np.square(rows - block_mean).sum(axis=0)
                + np.square(change) * (count * added / (count + added))
            )
            largest = np.maximum(largest, np.abs(rows).max(axis=0))
            count += added
        return np.asarray(mean), np.sqrt(square / count), np.asarray(largest)


def blocks(train: Rollouts, what: str) -> Iterator[Array]:
    """Yields all rows of rollouts, (rows, n), a part of a rollout at a time; `what` as in `Scaler.fit`."""
    beside = int(what == "changes")  # a change needs two rows
    for rollout in train:
        values = rollout.observations if beside else getattr(rollout, what)
        for start in range(0, len(values) - beside, BLOCK):
            rows = np.asarray(values[start : start + BLOCK + beside], np.float64)
            yield np.diff(rows, axis=0) if beside else rows.reshape(len(rows), -1)


def std_of(rows: Array) -> Array:
    """Returns the standard deviation of each column, also where the squares of its values would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        std = rows.std(axis=0)
    if np.isfinite(std).all():
        return np.asarray(std)
    largest = np.maximum(np.abs(rows).max(axis=0), 1.0)
    return np.asarray((rows / largest).std(axis=0) * largest)
