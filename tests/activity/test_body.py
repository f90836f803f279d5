"""The recorded body as the views see it: what moves, its colours, its ground, and from where it is seen."""

from typing import Any

import numpy as np
import pytest

from helpers.recordings import ONE, make_recording
from ncp_control.activity import Activity
from ncp_control.activity.body import LIMBS, OTHER_LIMBS, FlatBody, flat_body, heights

TAN, RED, BLUE = (0.8, 0.6, 0.4, 1.0), (0.9, 0.6, 0.6, 1.0), (0.3, 0.3, 0.7, 1.0)


def recorded(about: Any = None, **arrays: Any) -> Activity:
    """Makes a recording of a rail at a height of 1 m, and of two limbs that move along it, 0.2 m thick."""
    ends = np.zeros((20, 3, 2, 2))
    ends[:, 0] = [[-1.0, 1.0], [1.0, 1.0]]
    ends[:, 1:, :, 0] = np.linspace(0, 4, 20)[:, None, None]
    ends[:, 1:, 0, 1], ends[:, 1:, 1, 1] = 1.0, 1.5
    found = make_recording(ONE, 20, body_ends=ends, body_radii=np.array([0.01, 0.1, 0.1]), **arrays)
    if about is not None:
        found.about["body"] = about
    return found


def body_of(*given: Any, **arrays: Any) -> FlatBody:
    found = flat_body(recorded(*given, **arrays))
    assert found is not None
    return found


def shapes(*colours: tuple[float, ...]) -> np.ndarray:
    return np.array([[3, 0.1, 0.1, 0.0, *colour] for colour in colours])


def test_without_a_body_there_is_none() -> None:
    assert flat_body(make_recording(ONE)) is None
    assert flat_body(make_recording(ONE, 5, body_ends=np.zeros((5, 0, 2, 2)), body_radii=np.zeros(0))) is None


def test_the_camera_follows_only_what_moves() -> None:
    body = body_of()
    assert body.moving.tolist() == [False, True, True]
    np.testing.assert_allclose(body.middle[:, 0], np.linspace(0, 4, 20), atol=1e-6)
    assert heights(body) == pytest.approx((0.9, 1.6), abs=1e-6)
    still = make_recording(ONE, 5, body_ends=np.ones((5, 2, 2, 2)), body_radii=np.ones(2))
    found = flat_body(still)
    assert found is not None
    assert found.moving.all()


def test_the_ground_is_that_of_the_recording_if_it_is_near() -> None:
    assert body_of().ground == 0.0  # files of earlier versions say nothing
    assert body_of({"seen_from": "side", "flat": True, "ground": 0.8}).ground == 0.8
    assert body_of({"seen_from": "side", "flat": True, "ground": -3.0}).ground is None
    assert body_of({"seen_from": "side", "flat": True, "ground": None}).ground is None
    assert body_of({"seen_from": "above", "flat": True, "ground": -3.0}).ground == -3.0


@pytest.mark.parametrize(
    "about",
    [{}, [], "side", 5, {"seen_from": 3, "ground": "low", "flat": 7}, {"ground": True}, {"ground": float("nan")}],
)
def test_a_file_with_a_strange_description_is_drawn_from_the_side(about: Any) -> None:
    body = body_of(about)
    assert not body.above
    assert body.ground in (0.0, None)
    assert np.isfinite(heights(body)).all()


def test_from_above_the_camera_follows_both_ways() -> None:
    body = body_of({"seen_from": "above", "flat": True, "ground": None})
    assert body.above
    assert heights(body) == pytest.approx((-0.35, 0.35), abs=1e-6)


def test_limbs_of_clearly_another_colour_are_drawn_in_another() -> None:
    assert not body_of().other.any()
    # The reference is the most frequent colour of what moves; a small difference does not count.
    about = {"seen_from": "side", "flat": True, "ground": 0.8}
    assert body_of(about, body_shapes=shapes(BLUE, TAN, RED)).other.tolist() == [True, False, False]
    body = body_of(about, body_shapes=shapes(TAN, TAN, BLUE))
    assert body.other.tolist() == [False, False, True]
    colours = {LIMBS: False, OTHER_LIMBS: True}
    outlines, drawn = body.drawn(0, np.zeros(2))
    assert [colours[colour] for colour in drawn] == body.other.tolist()
    np.testing.assert_allclose(outlines[1].max(axis=0), [0.1, 1.6], atol=1e-6)


def test_what_is_nearer_is_drawn_over_what_is_farther_away() -> None:
    places = np.zeros((20, 3, 7))
    places[:10, :, 1], places[10:, :, 1] = (0.0, 1.0, -1.0), (0.0, -1.0, 1.0)
    arrays = {"body_places": places, "body_shapes": shapes(TAN, TAN, TAN)}
    body = body_of({"seen_from": "side", "flat": False, "ground": 0.0}, **arrays)
    rail = body.drawn(0, np.zeros(2))[0][:, :, 0].max(axis=1).argmax()
    assert rail == 1  # between the two limbs, which are above the origin at first
    assert body.depth is not None
    assert body.depth[[0, -1]].tolist() == [[0.0, 1.0, -1.0], [0.0, -1.0, 1.0]]
    assert body_of({"seen_from": "side", "flat": True, "ground": 0.0}, **arrays).depth is None


def test_numbers_that_are_not_finite_leave_the_rest_in_place() -> None:
    activity = recorded()
    activity.extras["body_ends"][3, 1] = np.nan
    body = flat_body(activity)
    assert body is not None
    assert heights(body)[1] == pytest.approx(1.6, abs=1e-6)
    assert np.isfinite(body.drawn(3, np.zeros(2))[0]).all()
