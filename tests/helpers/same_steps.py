"""Holds what two environments or vector environments return equal, bit for bit and with the same types of arrays."""

from typing import Any

import numpy as np


def assert_same(first: Any, second: Any) -> None:
    """Raises unless two results of `reset` or `step` are equal."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, tuple | list) or (isinstance(first, np.ndarray) and first.dtype == object):
        assert type(first) is type(second)
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, np.ndarray):
        np.testing.assert_array_equal(first, second, strict=True)
    else:
        assert np.array_equal(first, second, equal_nan=isinstance(first, float))
        assert isinstance(second, type(first)) or isinstance(first, type(second))
