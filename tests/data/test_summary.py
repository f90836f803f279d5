"""The summary of rollouts: the share of random actions with its confidence interval, and scores on a scale."""

import subprocess
import sys

import numpy as np
import pytest

from helpers.collecting import short, still
from ncp_control.data import Rollout, Rollouts, collect
from ncp_control.data.minari_files import normalized, scale_in
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


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"ref_min_score": 1.0},
        {"ref_min_score": 1.0, "ref_max_score": "5"},
        {"ref_min_score": True, "ref_max_score": 5.0},
        {"ref_min_score": 1.0, "ref_max_score": float("nan")},
        {"ref_min_score": 1.0, "ref_max_score": 10**400},
        {"ref_min_score": 2.0, "ref_max_score": 2},
    ],
)
def test_metadata_without_two_numbers_have_no_scale(metadata: dict[str, object]) -> None:
    assert scale_in(metadata) is None


def test_scores_are_linear_from_zero_to_one() -> None:
    scale = scale_in({"ref_min_score": -300, "ref_max_score": 700.0})
    assert scale == (-300.0, 700.0)
    assert normalized(np.array([-300.0, 200.0, 700.0, 1200.0]), scale).tolist() == [0.0, 0.5, 1.0, 1.5]


def test_a_summary_has_the_level_and_the_scores() -> None:
    rows = [Rollout(np.zeros((3, 1)), np.zeros((2, 1)), rewards=[value, 0.0], seed=k) for k, value in enumerate((2, 4))]
    plain, about = Rollouts(tuple(rows)), {"level": "medium", "ref_min_score": 0.0, "ref_max_score": 4.0}
    assert (summarize(plain)["level"], summarize(plain)["score"]) == (None, None)
    found = summarize(Rollouts(tuple(rows), about=about))
    assert found["level"] == "medium"
    assert found["score"] == {
        "mean": 0.75, "std": 0.25, "least": 0.5, "most": 1.0, "ref_min_score": 0.0, "ref_max_score": 4.0,
    }  # fmt: skip
    assert repr(Rollouts(tuple(rows), about=about)).endswith(
        "actions (1,), level medium, return 3.0 +- 1.0, lowest 2.0)"
    )
