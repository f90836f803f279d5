"""The gait in a recording, and the figure of the neurons' states by its phase."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of
from helpers.recordings import WORM, make_recording
from ncp_control.activity.figures import find_gait, phase_figure


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
