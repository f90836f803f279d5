"""The figure of the time constants."""

import numpy as np
import pytest

from helpers.recordings import WORM, make_recording
from ncp_control.activity.figures import time_constants_figure


@pytest.mark.system
@pytest.mark.parametrize(("low", "high", "note"), [(0.0, np.inf, "the least may be 0"), (0.01, 50.0, "")])
def test_time_constants_and_their_bounds(low, high, note):
    bounds = np.tile([[low], [high]], WORM.units)
    activity = make_recording(WORM, time_constant_bounds=bounds)
    axes = time_constants_figure(activity).axes[0]
    assert axes.get_yscale() == "log"
    medians = next(line for line in axes.lines if line.get_label() == "median").get_ydata()
    np.testing.assert_allclose(medians, np.median(activity.time_constants, 0), rtol=1e-6)
    assert note in axes.get_title("left")
    drawn = [line for line in axes.lines if line.get_label() == "bounds"]
    assert len(drawn) == (0 if note else 1)


def test_time_constants_that_are_not_numbers():
    values = np.ones((40, 7)) * np.array([np.nan, np.inf, 0, 1, 2, 3, 4])
    axes = time_constants_figure(make_recording(WORM, time_constants=values)).axes[0]
    assert len(next(line for line in axes.lines if line.get_label() == "median").get_xdata()) == 4
    figure = time_constants_figure(make_recording(WORM, time_constants=np.full((40, 7), np.inf)))
    assert "positive, finite" in figure.texts[0].get_text()


def test_time_constants_that_are_not_known():
    values = np.ones((40, 7))
    values[:, 2] = np.nan
    axes = time_constants_figure(make_recording(WORM, time_constants=values)).axes[0]
    assert axes.get_title("left").endswith("time constants of 1 neuron: not known")
    assert "not known" not in time_constants_figure(make_recording(WORM)).axes[0].get_title("left")
    figure = time_constants_figure(make_recording(WORM, time_constants=np.full((40, 7), np.nan)))
    assert figure.texts[0].get_text() == "The time constants of this recording are not known."
