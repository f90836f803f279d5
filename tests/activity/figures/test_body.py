"""The figure of the body at a few steps."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers.recordings import ONE, WORM, make_recording
from ncp_control.activity.body import LIMBS, OTHER_LIMBS
from ncp_control.activity.figures import body_figure

ROUND = 0.05 * (1 - np.cos(np.pi / 32))  # an outline's half circle of radius 0.05 has 17 points


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_the_poses_follow_one_another_through_the_longest_episode():
    activity = make_recording(WORM, 80, starts=(0, 16), body=True, about={"dt": 0.5}, observations=np.zeros((80, 2)))
    assert titles(body_figure(activity)) == [f"step {k}, {k / 2:.2f} s" for k in range(16, 80, 8)]


def test_the_poses_are_those_of_one_cycle_of_a_clear_gait():
    steps = np.arange(200)
    activity = make_recording(
        WORM, 200, body=True, about={"dt": None}, observations=np.sin(steps / 20 * 2 * np.pi)[:, None]
    )
    assert titles(body_figure(activity)) == [f"step {int(100 + 2.5 * k)}" for k in range(8)]


def test_every_panel_shows_its_pose_and_all_of_it():
    activity = make_recording(WORM, 30, body=True)
    figure = body_figure(activity, steps=[0, 7, 29])
    assert len(titles(figure)) == 3
    for axes, step in zip(figure.axes, (0, 7, 29), strict=False):
        (drawn,) = axes.collections
        ends = activity.extras["body_ends"][step]
        middle = ends[..., 0].mean()
        for path, capsule in zip(drawn.get_paths(), ends, strict=True):
            points = path.vertices
            np.testing.assert_allclose(points.min(0) + 0.05, capsule.min(0) - (middle, 0), atol=ROUND)
            np.testing.assert_allclose(points.max(0) - 0.05, capsule.max(0) - (middle, 0), atol=ROUND)
            (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
            assert (points >= (left, low)).all()
            assert (points <= (right, high)).all()
        assert {to_hex(colour) for colour in drawn.get_facecolors()} == {LIMBS}


def test_limbs_of_another_colour_are_drawn_in_another():
    shapes = [[3, 0.05, 0.1, 0, *colour, 1] for colour in [(0.8, 0.6, 0.4)] * 3 + [(0.2, 0.2, 0.8)]]
    about = {"body": {"seen_from": "above", "flat": True, "ground": None}}
    activity = make_recording(WORM, 10, body=True, body_shapes=shapes, about=about)
    (drawn,) = body_figure(activity, steps=[3]).axes[0].collections
    assert [to_hex(colour) for colour in drawn.get_facecolors()] == [LIMBS] * 3 + [OTHER_LIMBS]


def test_without_a_body_a_sentence_says_so_and_other_steps_are_refused():
    assert [text.get_text() for text in body_figure(make_recording(ONE)).texts] == ["No body was recorded."]
    with pytest.raises(ValueError, match="step 40 was not recorded: name steps from 0 to 39"):
        body_figure(make_recording(ONE, body=True), steps=[0, 40])
    with pytest.raises(ValueError, match="at least one step"):
        body_figure(make_recording(ONE, body=True), steps=[])
