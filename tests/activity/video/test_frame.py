"""The camera that follows a body, and the outlines of its capsules."""

import numpy as np
import pytest

from helpers.videos import with_body
from ncp_control.activity.body import capsule_outlines
from ncp_control.activity.video.frame import camera_path, tick_distance


def test_the_camera_follows_and_starts_anew_with_an_episode():
    activity = with_body(steps=60, starts=(0, 30))
    x = np.concatenate([np.arange(30.0), np.arange(30.0)])
    path = camera_path(activity, x)
    assert np.abs(path - x)[[15, 45]].max() < 1e-9
    assert path[29] > 20
    assert path[30] < 10


def test_capsules_are_as_long_and_as_thick_as_they_were():
    found = capsule_outlines(np.array([[[0.0, 1.0], [2.0, 1.0]]]), np.array([0.5]))[0]
    np.testing.assert_allclose([found.min(0), found.max(0)], [[-0.5, 0.5], [2.5, 1.5]], atol=1e-12)


@pytest.mark.parametrize(("about", "distance"), [(0.9, 0.5), (1.0, 1), (1.9, 1), (4.0, 2), (70, 50)])
def test_ticks_are_round_numbers_apart(about, distance):
    assert tick_distance(about) == pytest.approx(distance)
