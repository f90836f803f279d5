"""The frames of a video."""

import numpy as np
import pytest

from helpers.recordings import WORM, make_recording, with_continuations, with_unknown_currents
from helpers.videos import NAMED, neuron_pixels, with_body
from ncp_control.activity.body import flat_body
from ncp_control.activity.continued import continued_of
from ncp_control.activity.video.scene import Scene


def test_frames_change_with_the_body_and_the_cursor():
    activity = with_body(steps=300, starts=(0, 150))
    scene = Scene(activity, 0, 300, 640, 360, None, flat_body(activity))
    first = scene.frame(0).copy()
    assert first.shape == (360, 640, 4)
    assert (first != scene.frame(1)).any()
    assert (first == scene.frame(0)).all()
    # Far on is another page of the raster; turning back gives the first again.
    assert (first != scene.frame(299)).any()
    assert scene.page == range(180, 300)
    assert (first == scene.frame(0)).all()


def test_the_predicted_body_is_drawn_over_the_real_one_while_the_model_does_not_look():
    activity = with_continuations(with_body(steps=80))
    continued = continued_of(activity)
    run = continued.run(None)
    assert (run.start, run.parted) == (40, 50)
    scene = Scene(activity, 0, 80, 640, 360, None, flat_body(activity), run)

    def outlined(step: int) -> int:
        """Counts the pixels of the body's picture in the model's orange."""
        off = np.abs(scene.frame(step)[28:148, 12:300, :3].astype(int) - (0xD5, 0x5E, 0x00)).max(axis=2)
        return int((off < 60).sum())

    assert [outlined(step) for step in (0, 39, 70, 79)] == [0, 0, 0, 0]
    assert outlined(40) > 50
    assert outlined(52) > outlined(48)  # the words say, too, that they have parted


def test_states_that_are_not_numbers_are_drawn_grey():
    states = np.zeros((3, 3))
    states[1] = np.nan
    scene = Scene(make_recording(NAMED, 3, neurons=states), 0, 3, 480, 270, None, None)
    rows, columns = neuron_pixels(scene)
    np.testing.assert_allclose(scene.frame(1)[rows, columns, :3], 153, atol=2)


def frame(activity, step: int) -> np.ndarray:
    return Scene(activity, 0, activity.steps, 640, 360, None, None).frame(step).copy()


@pytest.mark.system
def test_frames_show_currents_only_if_they_are_known():
    known = make_recording(WORM, 3)
    unknown = with_unknown_currents(make_recording(WORM, 3))
    still = make_recording(WORM, 3)
    for activity in (known, unknown, still):
        activity.neurons[:], activity.inputs[:] = 0.5, 0.5
    still.currents[:], still.sensory_currents[:], still.gap_currents[:] = 0, 0, 0
    circuit = (slice(60, 300), slice(320, None))  # above the legend, which differs
    without_currents = frame(still, 1)[circuit]
    assert (frame(known, 1)[circuit] != without_currents).any()
    assert (frame(unknown, 1)[circuit] == without_currents).all()
    assert (frame(unknown, 1) != frame(still, 1)).any()  # the legend says that they are not known
