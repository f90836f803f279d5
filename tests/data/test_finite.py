"""NaN and infinity are found in arrays of every type, and large finite numbers are not mistaken for them."""

from typing import Any

import numpy as np
import pytest

from ncp_control.data.finite import is_all_finite, is_finite_number


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_one_bad_number_is_found_and_large_numbers_are_fine(dtype: Any) -> None:
    largest = np.finfo(dtype).max
    values = np.array([[0, 1, -1], [largest, -largest, largest]], dtype=dtype)
    assert is_all_finite(values)
    for bad in (np.nan, np.inf, -np.inf):
        values[1, 1] = bad
        assert not is_all_finite(values)
        assert not is_all_finite(values[1, 1])


def test_a_reward_is_one_finite_number() -> None:
    assert all(map(is_finite_number, (0, 1.5, np.float32(2), np.array(3.0), True)))
    assert not any(map(is_finite_number, (np.nan, -np.inf, None, "one", np.ones(2), 10**400)))
