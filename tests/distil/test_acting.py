"""Acting in several environments side by side, in each of which an episode may begin at any step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from helpers.distilling import CHOICES, STUDENTS, pendulum, student_of
from ncp_control.data.episodes import stack
from ncp_control.distil.collecting import Actor
from ncp_control.distil.demonstrations import demonstrations_of

BOX = gym.spaces.Box(np.array([-1, -2], np.float32), np.array([1, 0.5], np.float32))
# Where episodes begin, for three environments and six steps.
STARTS = np.array([[1, 0, 0, 1, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 1]], dtype=bool).T


@pytest.mark.parametrize("kind", list(STUDENTS))
@pytest.mark.parametrize("cell", ["ltc", "lstm"])
def test_each_environment_gets_the_actions_that_the_model_gives_it_alone(kind: str, cell: str) -> None:
    student = STUDENTS[kind](cell=cell, wiring=9)
    student.normalizer.norm_obs = kind != "plain"
    model, space = student.model, student.model.observation_space
    space.seed(0)
    drawn = [[space.sample() for _ in range(3)] for _ in STARTS]
    student.set_statistics(demonstrations_of([seen for row in drawn for seen in row], [0] * STARTS.size, True))
    actor = Actor(model, model.action_space)
    found = [actor.act(stack(seen), starts) for seen, starts in zip(drawn, STARTS, strict=True)]
    low, high = (getattr(model.action_space, end, None) for end in ("low", "high"))
    for k in range(3):
        state: Any = None
        for t in range(len(STARTS)):
            seen = student.normalizer.normalize_obs(drawn[t][k]) if student.normalizer.norm_obs else drawn[t][k]
            state = None if STARTS[t, k] else state
            action, state = model.predict(seen, state=state, deterministic=True)
            wanted = action if low is None else np.clip(action, low, high)
            # rows of a batch may be added in another order than one alone: some units in the last place of float32
            np.testing.assert_allclose(found[t][k], wanted, rtol=1e-5, atol=1e-5)
    assert actor.has_memory


def test_begin_forgets_all_earlier_episodes() -> None:
    model = student_of(pendulum).model
    actor = Actor(model, model.action_space)
    seen, going = np.ones((2, 2), np.float32), np.zeros(2, dtype=bool)
    first = actor.act(seen, going)
    assert not np.array_equal(actor.act(seen, going), first)
    actor.begin()
    np.testing.assert_array_equal(actor.act(seen, going), first)


def test_a_function_of_the_environments_observations_acts_without_a_memory() -> None:
    actor = Actor(lambda seen: 0.1 * seen, BOX)
    seen = np.array([[1.0, 2.0], [3.0, -4.0]])
    np.testing.assert_allclose(actor.act(seen, np.ones(2, dtype=bool)), 0.1 * seen, rtol=1e-6)
    assert not actor.has_memory


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_actions_of_a_box_are_clipped_and_lie_in_the_space(dtype: Any) -> None:
    given = np.array([[5, -7], [0, 3], [-1, -1]], dtype)
    found = Actor(lambda _: given, BOX).act(np.zeros((3, 1)), np.ones(3, dtype=bool))
    assert found.tolist() == [[1.0, -2.0], [0.0, 0.5], [-1.0, -1.0]]
    assert all(action in BOX for action in found)
    assert given.tolist() == [[5, -7], [0, 3], [-1, -1]]


def test_choices_stay_as_they_are() -> None:
    found = Actor(lambda seen: np.array([5, 7]), CHOICES).act(np.zeros((2, 1)), np.ones(2, dtype=bool))
    assert found.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("actions", "space", "sentence"),
    [
        (np.zeros((2, 3)), BOX, r"the teacher gave actions of shape \(2, 3\) for 2 observations at step 1"),
        (np.array([[0, 0], [0, np.nan]]), BOX, "the teacher gave nan at step 1"),
        (np.array([[0, 0], [0, 1j]]), BOX, "the teacher gave 0j at step 1, which is not an action of Box"),
        ([[0, 0], [0]], BOX, "the policy gave actions of different lengths"),
        (np.array([5, 8]), CHOICES, "the teacher gave 8 at step 1"),
        (np.array([5, 6.5]), CHOICES, "the teacher gave 5.0 at step 1"),
    ],
)
def test_what_is_no_action_is_refused_with_the_name_of_who_gave_it(actions: Any, space: Any, sentence: str) -> None:
    given = iter([np.full((2, *space.shape), 5), actions])
    actor = Actor(lambda _: next(given), space, "the teacher")
    actor.act(np.zeros((2, 1)), np.ones(2, dtype=bool))
    with pytest.raises(ValueError, match=sentence):
        actor.act(np.zeros((2, 1)), np.zeros(2, dtype=bool))
