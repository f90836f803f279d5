"""The summary of rollouts: the share of random actions and its confidence interval."""

import subprocess
import sys

import pytest

from helpers.collecting import short, still
from ncp_control.data import collect
from ncp_control.data.summary import binomial_interval, summarize


@pytest.mark.system
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


@pytest.mark.parametrize(("count", "of"), [(5, 100), (1, 3), (0, 7), (7, 7), (412, 8000), (99, 100)])
def test_the_interval_is_that_of_scipy(count: int, of: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    found = stats.binomtest(count, of).proportion_ci(method="wilson")
    assert binomial_interval(count, of) == pytest.approx(tuple(found), rel=1e-12, abs=1e-15)


@pytest.mark.system
def test_a_summary_needs_no_package_of_statistics() -> None:
    told = """
import sys
import numpy as np
from ncp_control.data import Rollout, Rollouts
from ncp_control.data.summary import summarize
summarize(Rollouts((Rollout(np.ones((3, 2)), is_random=[True, False]),)))
print("scipy" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert ended.stdout.strip() == "False", ended.stderr
