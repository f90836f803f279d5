"""Figures of each neuron's tuning and saliency, and of its time constants."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of
from helpers.recordings import WORM, make_recording
from ncp_control.activity.figures import saliency_figure, time_constants_figure, tuning_figure


def test_tuning_is_correlation_and_labelled():
    seen = np.random.default_rng(4).normal(size=(40, 2))
    states = np.random.default_rng(5).normal(size=(40, 7))
    states[:, 2], states[:, 3], states[:, 4] = 3 * seen[:, 1], -seen[:, 0], 0.25
    about = {"observation_names": ["height", "speed"]}
    figure = tuning_figure(make_recording(WORM, observations=seen, neurons=states, about=about))
    found = figure.axes[0].images[0].get_array()
    assert found[2, 1] == pytest.approx(1)
    assert found[3, 0] == pytest.approx(-1)
    assert np.isnan(np.ma.filled(found, np.nan)[4]).all()
    texts = " ".join(boxes_of(figure))
    for word in ("height", "speed", "AVB", "correlation", "not known"):
        assert word in texts


def test_saliency_is_what_was_recorded():
    activity = make_recording(WORM)
    found = np.random.default_rng(6).uniform(size=(activity.wiring.units, activity.wiring.inputs))
    activity.extras["saliency"] = found
    np.testing.assert_allclose(saliency_figure(activity).axes[0].images[0].get_array(), found)
    del activity.extras["saliency"]
    assert np.isnan(np.ma.filled(saliency_figure(activity).axes[0].images[0].get_array(), np.nan)).all()


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
