"""Trials in a recording, and their figure."""

from typing import Any

import numpy as np
import pytest

from helpers.figure_texts import boxes_of, overlaps
from helpers.recordings import WORM, make_recording
from ncp_control.activity import Activity
from ncp_control.activity.figures import trials_figure, write_figures
from ncp_control.activity.figures.trials import trials_of

NAMES = {"choice_names": ["wait", "left", "right"]}


def with_trials(ends: tuple[int, ...], right: tuple[float, ...], steps: int = 40, **more: Any) -> Activity:
    """A recording in which trials end at some steps, with the right action of each."""
    new, gt, share = np.zeros(steps, bool), np.zeros(steps), np.full(steps, np.nan)
    new[list(ends)], gt[list(ends)], share[list(ends)] = True, right, np.arange(len(ends)) % 2
    return make_recording(WORM, steps, about=NAMES, new_trial=new, gt=gt, performance=share, **more)


def test_trials_are_whole_and_sorted_by_the_right_action() -> None:
    found = trials_of(with_trials((4, 9, 24, 29), (2, 1, 2, 1), starts=(0, 20)))
    spans = [(trial.start, trial.stop) for trial in found.steps]
    assert spans == [(5, 10), (25, 30), (0, 5), (20, 25)]  # 10 to 19 and 30 to 39 have no end
    assert found.conditions.tolist() == [0, 0, 1, 1]
    assert found.names == ["left", "right"]
    assert found.correct.tolist() == [1.0, 0.0]


def test_right_actions_that_are_no_few_choices_are_one_condition() -> None:
    every = tuple(range(1, 40, 3))
    assert trials_of(with_trials(every, tuple(np.linspace(0, 1, len(every))))).names == ["all trials"]
    vectors = with_trials(every, tuple(np.ones(len(every))))
    vectors.extras["gt"] = np.stack([vectors.extras["gt"]] * 2, axis=1)
    assert trials_of(vectors).names == ["all trials"]


def test_choices_without_names_are_numbered() -> None:
    activity = with_trials((4, 9), (7, 9))
    assert trials_of(activity).names == ["action 7", "action 9"]


def test_the_figure_shows_each_trial_and_the_mean_of_each_condition() -> None:
    activity = with_trials((4, 9, 15, 19), (2, 1, 2, 1))
    figure = trials_figure(activity, ["move forward"])
    above, below = figure.axes[:2]
    neuron, states = WORM.neuron("move forward"), activity.neurons
    table = np.asarray(above.images[0].get_array())
    assert table.shape == (4, 6)  # the longest trial has six steps
    np.testing.assert_array_equal(table[1, :4], states[16:20, neuron])
    assert np.ma.getmaskarray(above.images[0].get_array())[1, 4:].all()
    left, right = (line.get_ydata() for line in below.lines)
    np.testing.assert_allclose(left, np.mean([states[5:9, neuron], states[16:20, neuron]], axis=0), rtol=1e-6)
    assert len(right) == 5  # a sixth step has only one of the two trials
    assert below.lines[0].get_xdata()[1] == pytest.approx(100)  # 0.1 s
    texts = " ".join(boxes_of(figure))
    for words in ("left (2 trials, 100 % correct)", "right (2 trials, 0 % correct)", "right action", "(ms)"):
        assert words in texts
    assert overlaps(boxes_of(figure)) == []


def test_motor_and_command_neurons_come_first() -> None:
    names = [axes.get_title(loc="left") for axes in trials_figure(with_trials((4, 9), (1, 2))).axes]
    shown = [name for name in names if name]
    assert shown[:4] == ["move backward", "move forward", "AVA", "AVB"]
    assert len(shown) == WORM.units


def test_only_recordings_with_trials_get_the_figure(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncp_control.activity.figures.write.FIGURES", {})
    assert write_figures(make_recording(WORM), tmp_path) == []
    assert [path.name for path in write_figures(with_trials((), ()), tmp_path)] == ["trials.png"]
    with pytest.raises(ValueError, match="has no trials"):
        trials_figure(make_recording(WORM))
