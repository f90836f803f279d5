"""The figure of a few neurons' states over time."""

import numpy as np
import pytest

from helpers.figure_texts import boxes_of, overlaps
from helpers.recordings import ONE, WORM, make_recording
from ncp_control.activity.figures import traces_figure


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
