"""Names in pictures: whose they are, and that none of them is obeyed."""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers.figure_texts import boxes_of
from helpers.recordings import make_recording
from ncp_control.activity.figures import raster_figure, tuning_figure, wiring_figure
from ncp_control.activity.layout import text_width
from ncp_control.activity.names import correlations, input_labels
from ncp_control.activity.video.scene import Scene
from ncp_control.base.pages import save_figure
from ncp_control.wiring import FullyConnected, Wiring

HOSTILE = ("$\\bad$", "_hidden", "a\x1b[31mb\nc", "x\u202egnp", "</svg><script>")
ODD = Wiring.from_edges(
    ["$\\worse$", "_input", "tab\t"], inter=[list(HOSTILE)], motor=["$x$"], sensory=[(0, 0), (1, 1), (2, 2), (0, 5)],
    synapses=[(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)],
)  # fmt: skip


@pytest.mark.system
@pytest.mark.parametrize("draw", [raster_figure, tuning_figure, wiring_figure])
def test_odd_names_are_drawn_literally(draw, tmp_path: Path) -> None:
    activity = make_recording(ODD, about={"env": "$\\env$"})
    figure = draw(activity)
    texts = [text.rpartition(" #")[0] for text in boxes_of(figure)]
    for name in ("$\\bad$", "_hidden", r"a\x1b[31mb\nc", r"x\u202egnp", "</svg><script>"):
        assert name in texts
    save_figure(figure, tmp_path / "figure.svg", 100)
    ElementTree.parse(tmp_path / "figure.svg")  # an XML parser refuses control characters
    assert "<script>" not in (tmp_path / "figure.svg").read_text()


def test_odd_names_are_drawn_literally_in_a_video() -> None:
    activity = make_recording(ODD, 12, about={"env": "$\\env$", "action_names": ["$\\a$", "_b", "c\n"]})
    scene = Scene(activity, 0, 12, 480, 270, None, None)
    scene.frame(3)
    texts = [text.rpartition(" #")[0] for text in boxes_of(scene.figure)]
    assert "$\\env$, 6 neurons" in texts


def test_a_formula_in_a_name_has_the_width_of_its_letters() -> None:
    assert text_width("$\\bad$", 7) == pytest.approx(text_width("\\bad", 7) + 2 * text_width("$", 7), rel=0.2)


@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_a_short_recording_gives_no_input_the_name_of_an_observation(steps: int) -> None:
    """Two numbers always lie on a line."""
    wiring = FullyConnected(3, 1).build(2)
    seen = np.random.default_rng(0).normal(size=(steps, 2))
    activity = make_recording(wiring, steps, observations=seen, about={"observation_names": ["height", "speed"]})
    assert input_labels(activity) == ("input0", "input1")


def test_inputs_that_follow_observations_have_their_names() -> None:
    wiring = FullyConnected(3, 1).build(3)
    activity = make_recording(wiring, 40, about={"observation_names": ["height", "speed", "angle"]})
    assert input_labels(activity) == ("height", "speed", "angle")


def test_an_input_that_is_as_constant_as_its_observation_has_its_name() -> None:
    """Such as a goal that is the same in every episode."""
    seen = np.random.default_rng(0).normal(size=(40, 3))
    seen[:, 2] = -0.3
    wiring, about = FullyConnected(3, 1).build(3), {"observation_names": ["height", "speed", "goal"]}
    activity = make_recording(wiring, 40, observations=seen, inputs=2 * seen, about=about)
    assert input_labels(activity) == ("height", "speed", "goal")
    activity = make_recording(wiring, 40, observations=seen, inputs=seen[:, [1, 0, 2]], about=about)
    assert input_labels(activity) == ("input0", "input1", "input2")


def test_correlations_of_numbers_that_are_not_finite_or_very_large_are_silent() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, 4))
    values[3, 0], values[4, 1] = np.inf, np.nan
    values[:, 2] *= 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correlations(values, values)
    assert np.isnan(found[:2]).all()
    assert np.isnan(found[:, :2]).all()
    np.testing.assert_allclose(found[2:, 2:], np.corrcoef((values[:, 2:] / [1e200, 1]).T), rtol=1e-9)
    np.testing.assert_allclose(np.diag(found)[2:], 1)
