"""Scores: returns on the scale between two reference scores, where a dataset has them."""

import numpy as np
import pytest

from ncp_control.data import Rollout, Rollouts
from ncp_control.data.scores import normalized, scale_in
from ncp_control.data.summary import summarize


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
