"""Which neurons of a circuit do nothing: those that never change, and those that stay at a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STILL = 1e-3  # standard deviation, over the bounds' width where there are bounds, below which a neuron never changes
AT_BOUND = 0.01  # of the bounds' width: so near to one of them a neuron is at it
OFTEN = 0.95  # of the steps


def still(neurons: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Neurons that never change, (N,).

    :param neurons: their states, (T, N)
    :param low: their bounds, (N,)
    :param high: (N,)
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    return np.asarray(np.std(neurons, axis=0, dtype=np.float64) < STILL * width)


def saturated(neurons: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Neurons that spend nearly all steps at one of their bounds, (N,); see `still`."""
    states, low, high = (np.asarray(values, np.float64) for values in (neurons, low, high))
    bounded = np.isfinite(high - low)
    margin = AT_BOUND * np.where(bounded, high - low, 0.0)
    near = (states <= low + margin) | (states >= high - margin)
    return np.asarray(bounded & (near.mean(axis=0) > OFTEN))
