"""Figures of recorded rollouts: what must be in them, and that nothing is written over anything else."""

from itertools import combinations

import numpy as np
import pytest

from helpers.recordings import ONE, WORM, make_activity
from ncp_control.activity.figures import draw as figures
from ncp_control.activity.figures.draw import (
    EXCITATORY,
    INHIBITORY,
    activity_colours,
    find_gait,
    limits,
    phase_figure,
    raster_figure,
    saliency_figure,
    time_constants_figure,
    traces_figure,
    tuning_figure,
    wiring_figure,
    write_figures,
)
from ncp_control.activity.layout import curves, input_labels, neuron_labels, place
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, Wiring


def boxes_of(figure) -> dict[str, np.ndarray]:
    """Text and the box that it fills, of all text that is drawn, as (left, bottom, right, top) in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return {
        f"{text.get_text()} #{k}": np.asarray(text.get_window_extent(renderer).extents) for k, text in enumerate(shown)
    }


def overlaps(boxes: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes share more than half a pixel either way."""
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes.items(), 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 0.5
    ]


def lines_of(figure, gid: str):
    return figure.findobj(lambda artist: artist.get_gid() == gid)[0]


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


@pytest.mark.parametrize("name", WIRINGS)
def test_wiring_labels_are_all_there_and_do_not_overlap(tmp_path, name):
    wiring = WIRINGS[name]
    activity = make_activity(tmp_path, wiring, steps=3)
    figure = wiring_figure(activity, step=1)
    boxes = boxes_of(figure)
    assert overlaps(boxes) == []
    texts = [text.rpartition(" #")[0] for text in boxes]
    for title in ("inputs", *wiring.layers):
        assert texts.count(title) == 1
    assert {"excitatory", "inhibitory"} <= set(texts)
    for label in neuron_labels(wiring):
        assert label in texts
    extents = np.array(list(boxes.values()))
    width, height = figure.bbox.size
    assert (extents[:, :2] > -1).all()
    assert (extents[:, 2] < width + 1).all()
    assert (extents[:, 3] < height + 1).all()


@pytest.mark.parametrize("units", [1, 2, 3, 17, 33, 100, 200])
def test_nodes_keep_apart_and_inside_of_their_box(units):
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


def test_synapses_have_the_colours_of_their_polarities(tmp_path):
    from matplotlib.colors import to_rgb

    activity = make_activity(tmp_path, WORM)
    lines = lines_of(wiring_figure(activity), "synapses")
    signs = [*WORM.sensory.polarity, *WORM.synapses.polarity]
    expected = [to_rgb(EXCITATORY if sign > 0 else INHIBITORY) for sign in signs]
    np.testing.assert_allclose(lines.get_colors()[:, :3], expected)
    assert len(lines_of(wiring_figure(activity), "gap junctions").get_segments()) == 2


def test_nodes_have_the_colours_of_their_states(tmp_path):
    activity = make_activity(tmp_path, WORM)
    plain = lines_of(wiring_figure(activity), "neurons").get_facecolor()
    assert (plain == 1).all()
    colours = lines_of(wiring_figure(activity, 7), "neurons").get_facecolor()
    np.testing.assert_allclose(colours, activity_colours(activity.neurons[7], limits(activity).state))
    green = colours[:, 1] > colours[:, 0]
    assert (green == (activity.neurons[7] > 0)).all()
    with pytest.raises(ValueError, match="step 40 was not recorded"):
        wiring_figure(activity, 40)


def test_an_input_that_follows_an_observation_has_its_name(tmp_path):
    seen = np.random.default_rng(1).normal(size=(40, 2)) * [3, 0.1] + 5
    about = {"observation_names": ["height", "speed"]}
    wiring = FullyConnected(3).build(2)
    read = (seen - 5) / [3, 0.1]
    read[:, 1] = read[::-1, 1]
    activity = make_activity(tmp_path, wiring, seen=seen, about=about, inputs=read)
    assert input_labels(activity) == ("height", "input1")


def test_raster_shows_every_state_and_where_episodes_start(tmp_path):
    activity = make_activity(tmp_path, AutoNCP(12, 3).build(4), steps=50, starts=(0, 20, 45))
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


def test_a_long_raster_is_made_of_means(tmp_path):
    activity = make_activity(tmp_path, ONE, steps=4500)
    image = raster_figure(activity).axes[0].images[0]
    assert image.get_array().shape == (1, 1500)
    np.testing.assert_allclose(image.get_array()[0, 0], activity.neurons[:3].mean(), rtol=1e-5)


def test_traces_of_chosen_neurons(tmp_path):
    activity = make_activity(tmp_path, WORM)
    figure = traces_figure(activity, ["AVA", 0])
    drawn = [axes.lines[0].get_ydata() for axes in figure.axes if axes.lines]
    np.testing.assert_array_equal(drawn, activity.neurons[:, [3, 0]].T)
    assert overlaps({text: box for text, box in boxes_of(figure).items() if "AV" in text}) == []
    assert len([axes for axes in traces_figure(activity).axes if axes.lines]) == 7
    with pytest.raises(ValueError, match="no neuron named 'AVE'"):
        traces_figure(activity, ["AVE"])
    with pytest.raises(ValueError, match="no neuron 7; there are 7"):
        traces_figure(activity, [7])


@pytest.mark.parametrize(("low", "high", "note"), [(0.0, np.inf, "the least may be 0"), (0.01, 50.0, "")])
def test_time_constants_and_their_bounds(tmp_path, low, high, note):
    bounds = np.tile([[low], [high]], WORM.units)
    activity = make_activity(tmp_path, WORM, time_constant_bounds=bounds)
    axes = time_constants_figure(activity).axes[0]
    assert axes.get_yscale() == "log"
    medians = next(line for line in axes.lines if line.get_label() == "median").get_ydata()
    np.testing.assert_allclose(medians, np.median(activity.time_constants, 0), rtol=1e-6)
    assert note in axes.get_title("left")
    drawn = [line for line in axes.lines if line.get_label() == "bounds"]
    assert len(drawn) == (0 if note else 1)


def test_time_constants_that_are_not_numbers(tmp_path):
    values = np.ones((40, 7)) * np.array([np.nan, np.inf, 0, 1, 2, 3, 4])
    axes = time_constants_figure(make_activity(tmp_path, WORM, time_constants=values)).axes[0]
    assert len(next(line for line in axes.lines if line.get_label() == "median").get_xdata()) == 4
    figure = time_constants_figure(make_activity(tmp_path, WORM, time_constants=np.full((40, 7), np.inf)))
    assert "positive, finite" in figure.texts[0].get_text()


def gait_activity(tmp_path, steps=300):
    """Neuron k peaks k seventh parts of a cycle after the second observation; a cycle is 12 steps."""
    turn = 2 * np.pi * np.arange(steps) / 12
    rng = np.random.default_rng(2)
    seen = rng.normal(size=(steps, 3))
    seen[:, 1] = 4 + np.cos(turn) + 0.1 * seen[:, 1]
    states = np.cos(turn[:, None] - 2 * np.pi * np.arange(7) / 7)
    return make_activity(tmp_path, WORM, steps=steps, seen=seen, neurons=states, starts=(0, 120))


def test_the_gait_is_found_and_neurons_peak_at_their_phase(tmp_path):
    activity = gait_activity(tmp_path)
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
def test_noise_has_no_gait(tmp_path, steps):
    seen = np.random.default_rng(3).normal(size=(steps, 17))
    seen[:, 0] = 1.5  # and what never changes has none either
    figure = phase_figure(make_activity(tmp_path, WORM, steps=steps, seen=seen))
    assert "no clear gait" in figure.texts[0].get_text()


def test_tuning_is_correlation_and_labelled(tmp_path):
    seen = np.random.default_rng(4).normal(size=(40, 2))
    states = np.random.default_rng(5).normal(size=(40, 7))
    states[:, 2], states[:, 3], states[:, 4] = 3 * seen[:, 1], -seen[:, 0], 0.25
    about = {"observation_names": ["height", "speed"]}
    figure = tuning_figure(make_activity(tmp_path, WORM, seen=seen, neurons=states, about=about))
    found = figure.axes[0].images[0].get_array()
    assert found[2, 1] == pytest.approx(1)
    assert found[3, 0] == pytest.approx(-1)
    assert np.isnan(np.ma.filled(found, np.nan)[4]).all()
    texts = " ".join(boxes_of(figure))
    for word in ("height", "speed", "AVB", "correlation", "does not change"):
        assert word in texts


def test_all_figures_are_written_whole(tmp_path):
    activity = make_activity(tmp_path, ONE, steps=2)
    paths = write_figures(activity, tmp_path / "new" / "figures")
    assert len(paths) == 8
    assert sorted(paths) == sorted((tmp_path / "new" / "figures").iterdir())
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in paths)


def test_figures_are_written_in_the_formats_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_ALL", {"wiring": wiring_figure})
    activity = make_activity(tmp_path, ONE, steps=2)
    svg, pdf = write_figures(activity, tmp_path, ("svg", "pdf"))
    assert svg.read_bytes().startswith(b"<?xml")
    assert pdf.read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match="png, svg or pdf, not 'bmp'"):
        write_figures(activity, tmp_path, ("bmp",))


def test_figures_leave_no_trace_in_pyplot(tmp_path):
    import matplotlib.pyplot as plt

    figure = traces_figure(make_activity(tmp_path, ONE))
    assert plt.get_fignums() == []
    figure.axes[0].set_title("mine")  # a figure is the caller's to restyle
    figure.savefig(tmp_path / "mine.pdf")


def test_saliency_is_what_was_recorded(tmp_path):
    activity = make_activity(tmp_path, WORM)
    found = np.random.default_rng(6).uniform(size=(activity.wiring.units, activity.wiring.inputs))
    activity.extras["saliency"] = found
    np.testing.assert_allclose(saliency_figure(activity).axes[0].images[0].get_array(), found)
    del activity.extras["saliency"]
    assert np.isnan(np.ma.filled(saliency_figure(activity).axes[0].images[0].get_array(), np.nan)).all()
