"""The figure of the body at a few steps, the gait in a recording, and the figure of the states by its phase."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers.figure_texts import boxes_of
from helpers.recordings import ONE, WORM, make_recording
from ncp_control.activity.body import LIMBS, OTHER_LIMBS
from ncp_control.activity.figures import body_figure, find_gait, phase_figure

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


def gait_activity(steps=300):
    """Neuron k peaks k seventh parts of a cycle after the second observation; a cycle is 12 steps."""
    turn = 2 * np.pi * np.arange(steps) / 12
    rng = np.random.default_rng(2)
    seen = rng.normal(size=(steps, 3))
    seen[:, 1] = 4 + np.cos(turn) + 0.1 * seen[:, 1]
    states = np.cos(turn[:, None] - 2 * np.pi * np.arange(7) / 7)
    return make_recording(WORM, steps=steps, observations=seen, neurons=states, starts=(0, 120))


def test_the_gait_is_found_and_neurons_peak_at_their_phase():
    activity = gait_activity()
    gait = find_gait(activity)
    assert gait.observation == 1
    assert gait.frequency == pytest.approx(1 / 12, rel=0.03)
    away = np.angle(np.exp(1j * (gait.phase - 2 * np.pi * np.arange(300) / 12)))
    assert np.abs(away)[10:110].max() < 0.3
    figure = phase_figure(activity)
    texts = " ".join(boxes_of(figure))
    assert "observation 1" in texts
    assert "0.83 cycles a second" in texts
    image = next(axes.images[0] for axes in figure.axes if axes.images)
    # The layers are neurons 0 and 1; 2; 3 and 4; 5 and 6: each already in the order of their phases.
    turn = np.exp(2j * np.pi * (np.arange(16) + 0.5) / 16)
    away = np.angle((np.asarray(image.get_array())[:, :16] @ turn) * np.exp(-2j * np.pi * np.arange(7) / 7))
    assert np.abs(away).max() < 0.3


@pytest.mark.parametrize("steps", [3, 60, 1000])
def test_noise_has_no_gait(steps):
    seen = np.random.default_rng(3).normal(size=(steps, 17))
    seen[:, 0] = 1.5  # and what never changes has none either
    figure = phase_figure(make_recording(WORM, steps=steps, observations=seen))
    assert "no clear gait" in figure.texts[0].get_text()
