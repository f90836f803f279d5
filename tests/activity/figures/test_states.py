"""The figures of every neuron's state over time, and of a few neurons' states."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of, overlaps
from helpers.recordings import ONE, WORM, make_recording
from ncp_control.activity.figures import raster_figure, traces_figure
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


def test_traces_of_chosen_neurons():
    activity = make_recording(WORM)
    figure = traces_figure(activity, ["AVA", 0])
    drawn = [axes.lines[0].get_ydata() for axes in figure.axes if axes.lines]
    np.testing.assert_array_equal(drawn, activity.neurons[:, [3, 0]].T)
    assert overlaps({text: box for text, box in boxes_of(figure).items() if "AV" in text}) == []
    assert len([axes for axes in traces_figure(activity).axes if axes.lines]) == 7
    with pytest.raises(ValueError, match="no neuron named 'AVE'"):
        traces_figure(activity, ["AVE"])
    with pytest.raises(ValueError, match="no neuron 7; there are 7"):
        traces_figure(activity, [7])


@pytest.mark.system
def test_figures_leave_no_trace_in_pyplot(tmp_path):
    import matplotlib.pyplot as plt

    figure = traces_figure(make_recording(ONE))
    assert plt.get_fignums() == []
    figure.axes[0].set_title("mine")  # a figure is the caller's to restyle
    figure.savefig(tmp_path / "mine.pdf")
