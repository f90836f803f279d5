"""The summary of rollouts: the share of random actions and its confidence interval."""

from math import sqrt

import pytest

from helpers.collecting import short, still
from ncp_control.data import collect
from ncp_control.data.summary import binomial_interval, summarize


def test_the_share_of_random_actions_is_the_wanted_one() -> None:
    rollouts = collect(still, short(steps=200), rollouts=40, random_action_fraction=0.05, progress=False)
    found = summarize(rollouts)["random_actions"]
    assert found["of"] == 8000
    assert found["low"] < 0.05 < found["high"]
    assert found["wanted"] == 0.05


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert binomial_interval(5, 100) == pytest.approx((0.0215, 0.1118), abs=1e-4)  # from tables
    assert binomial_interval(0, 10)[0] == 0.0
    assert binomial_interval(10, 10)[1] == 1.0


@pytest.mark.parametrize(("count", "of"), [(5, 100), (1, 3), (412, 8000), (99, 100)])
def test_the_interval_is_that_of_the_closed_form(count: int, of: int) -> None:
    share, z = count / of, 1.959963984540054  # the 97.5 % quantile of the normal distribution
    middle = share + z * z / (2 * of)
    reach = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    closed = ((middle - reach) / (1 + z * z / of), (middle + reach) / (1 + z * z / of))
    assert binomial_interval(count, of) == pytest.approx(closed, rel=1e-12)
