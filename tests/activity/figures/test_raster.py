"""The figure of every neuron's state over time."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of
from helpers.recordings import ONE, make_recording
from ncp_control.activity.figures import raster_figure
from ncp_control.wiring import AutoNCP


def test_raster_shows_every_state_and_where_episodes_start():
    activity = make_recording(AutoNCP(12, 3).build(4), steps=50, starts=(0, 20, 45))
    figure = raster_figure(activity)
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), activity.neurons.T)
    dashed = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == [19.5, 44.5]
    texts = " ".join(boxes_of(figure))
    for word in ("inter", "command", "motor", "an episode starts", "seconds", "Some-v0", "12 neurons"):
        assert word in texts
    assert raster_figure(activity, start=10, steps=5).axes[0].images[0].get_array().shape == (12, 5)
    with pytest.raises(ValueError, match="step 50 was not recorded"):
        raster_figure(activity, start=50)


def test_a_long_raster_is_made_of_means():
    activity = make_recording(ONE, steps=4500)
    image = raster_figure(activity).axes[0].images[0]
    assert image.get_array().shape == (1, 1500)
    np.testing.assert_allclose(image.get_array()[0, 0], activity.neurons[:3].mean(), rtol=1e-5)
