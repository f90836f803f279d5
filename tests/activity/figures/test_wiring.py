"""The figure of a circuit: what must be in it, and that no text is written over another."""

import numpy as np
import pytest

from helpers.figure_texts import artist_of, boxes_of, overlaps
from helpers.recordings import ONE, WORM, make_recording, with_unknown_currents
from ncp_control.activity.figures import wiring_figure
from ncp_control.activity.figures.style import EXCITATORY, INHIBITORY, activity_colours, limits
from ncp_control.activity.figures.wiring import current_limit, current_strengths
from ncp_control.activity.names import neuron_labels
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, Wiring

WIRINGS = {
    "one neuron": ONE,
    "worm": WORM,
    "fully connected": FullyConnected(12, 3).build(2),
    "policy": AutoNCP(48, 16).build(17),
    "inter layers": NCP(
        inter=(5, 4, 3), command=4, motor=2, sensory_fanout=2, inter_fanout=2, recurrent_command=3, motor_fanin=2
    ).build(3),
    "long names": Wiring.from_edges(
        [f"a long observation, number {k}" for k in range(32)],
        inter=[f"a neuron of number {k}" for k in range(32)],
        command=[f"commander {k}" for k in range(4)],
        motor=[f"muscle {k}" for k in range(4)],
        sensory=[(k % 32, k) for k in range(40)],
    ),
}


@pytest.mark.system
@pytest.mark.parametrize("name", WIRINGS)
def test_wiring_labels_are_all_there_and_do_not_overlap(name):
    wiring = WIRINGS[name]
    activity = make_recording(wiring, steps=3)
    figure = wiring_figure(activity, step=1)
    boxes = boxes_of(figure)
    assert overlaps(boxes) == []
    texts = [text.rpartition(" #")[0] for text in boxes]
    for title in ("inputs", *wiring.layers):
        assert texts.count(title) == 1
    assert {"pushes its target up", "pushes it down"} <= set(texts)
    for label in neuron_labels(wiring):
        assert label in texts
    extents = np.array(list(boxes.values()))
    width, height = figure.bbox.size
    assert (extents[:, :2] > -1).all()
    assert (extents[:, 2] < width + 1).all()
    assert (extents[:, 3] < height + 1).all()


def test_synapses_have_the_colours_of_their_polarities():
    from matplotlib.colors import to_rgb

    activity = make_recording(WORM)
    lines = artist_of(wiring_figure(activity), "synapses")
    signs = [*WORM.sensory.polarity, *WORM.synapses.polarity]
    expected = [to_rgb(EXCITATORY if sign > 0 else INHIBITORY) for sign in signs]
    np.testing.assert_allclose(lines.get_colors()[:, :3], expected)
    assert len(artist_of(wiring_figure(activity), "gap junctions").get_segments()) == 2


def test_at_a_step_synapses_have_the_colours_of_the_signs_of_their_currents():
    from matplotlib.colors import to_rgb

    activity = make_recording(WORM)
    colours = artist_of(wiring_figure(activity, 7), "synapses").get_colors()[:, :3]
    currents = np.concatenate([activity.sensory_currents[7], activity.currents[7]])
    assert {-1, 1} <= set(np.sign(currents))
    strong = np.argsort(current_strengths(activity, 7, current_limit(activity)), kind="stable")  # as they are drawn
    expected = [to_rgb(EXCITATORY if current > 0 else INHIBITORY) for current in currents[strong]]
    np.testing.assert_allclose(colours, expected)


def test_nodes_have_the_colours_of_their_states():
    activity = make_recording(WORM)
    plain = artist_of(wiring_figure(activity), "neurons").get_facecolor()
    assert (plain == 1).all()
    colours = artist_of(wiring_figure(activity, 7), "neurons").get_facecolor()
    np.testing.assert_allclose(colours, activity_colours(activity.neurons[7], limits(activity).state))
    green = colours[:, 1] > colours[:, 0]
    assert (green == (activity.neurons[7] > 0)).all()
    with pytest.raises(ValueError, match="step 40 was not recorded"):
        wiring_figure(activity, 40)


def test_synapses_with_stronger_currents_are_wider():
    activity = make_recording(WORM)
    figure = wiring_figure(activity, 7)
    widths = artist_of(figure, "synapses").get_linewidths()
    currents = np.abs([*activity.sensory_currents[7], *activity.currents[7]])
    # The strongest are drawn last.
    assert (np.diff(widths) >= 0).all()
    assert max(widths) > 2 * min(widths)
    assert len(widths) == len(currents)
    assert "wide: a strong current" in " ".join(boxes_of(figure))


def test_synapses_look_alike_if_their_currents_are_not_known():
    activity = with_unknown_currents(make_recording(WORM))
    figure = wiring_figure(activity, 7)
    unknown, without = (artist_of(one, "synapses") for one in (figure, wiring_figure(activity)))
    assert len(np.unique(unknown.get_colors(), axis=0)) == 1
    np.testing.assert_array_equal(unknown.get_colors()[:, 3], without.get_colors()[:, 3])
    np.testing.assert_array_equal(unknown.get_linewidths(), without.get_linewidths())
    # The neurons' states are known.
    colours = artist_of(figure, "neurons").get_facecolor()
    np.testing.assert_allclose(colours, activity_colours(activity.neurons[7], limits(activity).state))
    texts = boxes_of(figure)
    assert "currents: not known" in " ".join(texts)
    assert "strong current" not in " ".join(texts)
    assert "pushes" not in " ".join(texts)
    assert overlaps(texts) == []
    assert "not known" not in " ".join(boxes_of(wiring_figure(activity)))  # it shows no currents anyway
