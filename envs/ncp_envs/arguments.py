"""Checks of the arguments of wrappers. Each error is one sentence that names the wrapper."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium as gym
import numpy as np


def check_probability(wrapper: str, probability: float) -> float:
    """Returns `probability` as a float if it lies between 0 and 1."""
    if not is_finite(probability) or not 0.0 <= probability <= 1.0:
        raise ValueError(f"{wrapper} needs a probability between 0 and 1, and got {probability!r}")
    return float(probability)


def is_finite(value: Any) -> bool:
    """Whether a value is one number, and a finite one."""
    try:
        return bool(np.isfinite(value))
    except (TypeError, ValueError):
        return False


def check_count(wrapper: str, name: str, value: Any, least: int) -> int:
    """Returns `value` as an int if it is a whole number of at least `least`."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{wrapper} needs a whole number for {name}, and got {value!r}") from None
    if isinstance(value, bool):
        raise TypeError(f"{wrapper} needs a whole number for {name}, and got {value}")
    if count < least:
        raise ValueError(f"{wrapper} needs {name} of at least {least}, and got {count}")
    return count


def check_box(wrapper: str, space: gym.Space[Any], vector: bool = False, floating: bool = False) -> gym.spaces.Box:
    """Returns `space` if it is a Box, and, where these are required, one of vectors and of floating-point numbers."""
    if not isinstance(space, gym.spaces.Box):
        raise TypeError(f"{wrapper} needs observations from a Box, and got {space}")
    if vector and len(space.shape) != 1:
        raise TypeError(f"{wrapper} needs vector observations, a Box of shape (size,), and got {space}")
    if floating and not np.issubdtype(space.dtype, np.floating):
        raise TypeError(f"{wrapper} needs observations of floating-point numbers, and got {space}")
    return space


def with_more(box: gym.spaces.Box, low: Any, high: Any) -> gym.spaces.Box:
    """Returns a space of vectors with more entries after those of `box`.

    :param box: a space of vectors
    :param low: the least value of each further entry
    :param high: the greatest value of each
    """
    ends = (np.append(box.low, low).astype(box.dtype), np.append(box.high, high).astype(box.dtype))
    return gym.spaces.Box(*ends, dtype=box.dtype.type)
