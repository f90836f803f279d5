"""Neurons of a circuit that do nothing: those that never change, and those that stay at a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# A neuron never changes if its standard deviation is below this share of the width between its bounds; without bounds
# the width counts as 1.
STILL = 1e-3
AT_BOUND = 0.01  # a neuron is at a bound if it is within this share of the width between the bounds
OFTEN = 0.95  # a neuron is saturated if it is at a bound in more than this share of the steps


def still(neurons: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Finds the neurons that never change.

    :param neurons: their states, (T, N)
    :param low: their lower bounds, (N,)
    :param high: their upper bounds, (N,)
    :return: (N,) bool
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    return np.asarray(np.std(neurons, axis=0, dtype=np.float64) < STILL * width)


def saturated(neurons: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Finds the neurons that spend nearly all steps at one of their bounds; parameters and result are as in `still`."""
    states, low, high = (np.asarray(values, np.float64) for values in (neurons, low, high))
    bounded = np.isfinite(high - low)
    margin = AT_BOUND * np.where(bounded, high - low, 0.0)
    near = (states <= low + margin) | (states >= high - margin)
    return np.asarray(bounded & (near.mean(axis=0) > OFTEN))
