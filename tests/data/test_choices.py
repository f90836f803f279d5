"""Choices from a `Discrete` space, for models that read actions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers.rollouts import trace
from ncp_control.data import Rollout, Rollouts, collect
from ncp_control.dynamics import DynamicsModel, FitSettings, fit


def chosen(*acts: int, choices: range | None = range(5, 8)) -> Rollouts:
    rollouts = tuple(Rollout(trace(len(acts) + 1, seed=k), np.array(acts), name=f"r{k}") for k in range(3))
    return Rollouts(rollouts, choices=choices)


def test_each_choice_becomes_a_vector_from_the_first_choice_on() -> None:
    found = chosen(5, 7, 6, 5).one_hot()
    assert found[0].actions is not None
    assert found[0].actions.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert found[1:].choices is None
    assert found.one_hot() is found


def test_actions_without_choices_and_one_of_two_choices_stay_as_they_are() -> None:
    for rollouts in (chosen(0, 1, 2, choices=None), chosen(3, 4, 3, choices=range(3, 5))):
        assert rollouts.one_hot() is rollouts


@pytest.mark.parametrize(
    ("rollouts", "words"),
    [
        (chosen(5, 8, 6), r"r0: actions\[1\] is 8, which is none of the choices 5 to 7"),
        (chosen(5, 6, 4), r"r0: actions\[2\] is 4, which is none of"),
        (
            Rollouts((Rollout(trace(), trace(5, 2)),), choices=range(3)),
            r"its actions are an array of float64 and shape",
        ),
        (Rollouts((Rollout(trace()),), choices=range(3)), "and its actions are none"),
        (chosen(5, 6, choices=range(10**12)), "1000000000000 choices are too many"),
    ],
)
def test_actions_that_are_no_such_choices_are_refused(rollouts: Rollouts, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rollouts.one_hot()


def test_a_model_reads_choices_as_vectors_alone() -> None:
    rollouts = collect("random", "MountainCar-v0", 3, 0.0, progress=False)
    assert rollouts.choices == range(3)
    with pytest.raises(
        ValueError, match=r"are the choices 0 to 2, whose order means nothing .*: give it rollouts.one_hot"
    ):
        DynamicsModel.of(rollouts, "gru", 3, reads="observations+actions")
    parts = rollouts.one_hot().split()
    model = DynamicsModel.of(parts.train, "gru", 3, reads="observations+actions")
    assert model.action_size == 3
    assert_array_equal(model.action_range, [[0, 0, 0], [1, 1, 1]])
    assert fit(model, parts, FitSettings(epochs=1, stride=50), progress=False).best is not None
    with pytest.raises(ValueError, match="the train rollouts have 1 actions a step, and the model reads 3"):
        fit(model, rollouts.split(), FitSettings(epochs=1), progress=False)
