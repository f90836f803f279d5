"""How two sets of recorded values go together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def correlations(one: Array, other: Array) -> Array:
    """Returns Pearson's correlation of each column of `one` with each column of `other`.

    It is NaN where a column is constant or has a value that is not finite.

    :param one: (T, A)
    :param other: (T, B)
    :return: (A, B)
    """

    def standard(values: Array) -> Array:
        values = np.asarray(values, np.float64)
        values = np.where(np.isfinite(values).all(0), values, 0.0)
        values = values / np.maximum(np.abs(values).max(0, initial=0.0), 1e-30)  # so that no square overflows
        spread = values.std(0)
        # Because of rounding, the standard deviation of a constant column is not exactly zero.
        spread[~(spread > 1e-7)] = np.nan
        return np.asarray((values - values.mean(0)) / spread)

    return np.asarray(standard(one).T @ standard(other) / max(len(one), 1))
