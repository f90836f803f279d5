"""Where nodes and synapses are in a picture of a circuit."""

import numpy as np
import pytest

from helpers.recordings import WORM, make_recording
from ncp_control.activity.layout import curves, place
from ncp_control.activity.names import input_labels
from ncp_control.wiring import FullyConnected


@pytest.mark.parametrize("units", [1, 2, 3, 17, 33, 100, 200])
def test_nodes_do_not_touch_each_other_or_the_sides_of_their_box(units):
    wiring = FullyConnected(units, max(1, units // 4)).build(min(units, 30))
    for width, height in ((6.0, 6.0), (12.0, 4.0), (2.5, 3.0)):
        layout = place(wiring, width, height)
        points = np.concatenate([layout.inputs, layout.neurons])
        apart = np.hypot(*(points[:, None] - points).T) + 10 * np.eye(len(points))
        assert apart.min() > 2 * layout.radius
        assert (points > layout.radius * 0.99).all()
        assert (points < np.array([width, height]) - layout.radius * 0.99).all()
        again = place(wiring, width, height)
        assert (again.neurons == layout.neurons).all()
        assert again.labels == layout.labels


def test_columns_go_from_inputs_to_motor_neurons():
    layout = place(WORM, 10, 5)
    middle = [layout.inputs[:, 0].mean(), *(layout.neurons[where, 0].mean() for where in WORM.layers.values())]
    assert (np.diff(middle) > 0).all()


def test_lines_begin_and_end_where_their_neurons_are():
    start = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 1.0], [1.0, 1.0]])
    end = np.array([[3.0, 1.0], [0.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
    lines = curves(start, end, radius=0.1)
    np.testing.assert_allclose(lines[:3, 0], start[:3])
    np.testing.assert_allclose(lines[:3, -1], end[:3])
    assert lines[1, 10, 0] > 0.1  # an arc beside the column
    there, back = lines[0, 10], lines[2, 10]
    assert np.hypot(*(there - back)) > 0.1  # both directions can be seen
    assert np.ptp(lines[3], axis=0).min() > 0.1  # a loop


def test_an_input_that_follows_an_observation_has_its_name():
    seen = np.random.default_rng(1).normal(size=(40, 2)) * [3, 0.1] + 5
    about = {"observation_names": ["height", "speed"]}
    wiring = FullyConnected(3).build(2)
    read = (seen - 5) / [3, 0.1]
    read[:, 1] = read[::-1, 1]
    activity = make_recording(wiring, observations=seen, about=about, inputs=read)
    assert input_labels(activity) == ("height", "input1")
