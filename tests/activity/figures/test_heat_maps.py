"""Figures with a number for each neuron and each observation or input."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of
from helpers.recordings import WORM, make_recording
from ncp_control.activity.figures import saliency_figure, tuning_figure


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
