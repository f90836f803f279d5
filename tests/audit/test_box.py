"""The observations that a certificate holds for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.small_agents import small_agent
from ncp_control.audit.box import feature_errors, features_in, finite_box, observation_box, units_of
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl import Controller
from ncp_control.rl.controller import read_vector

AGENT = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-positions.safetensors"
NOW = Elapsed(1.0, 1.0)


def of(agent: Any, box: Any) -> Any:
    controller = Controller(agent)
    return controller, *observation_box(controller, read_vector(agent.observation_space)[1], box)


def test_the_whole_space_becomes_the_clip_of_the_normalisation() -> None:
    controller, found, origin = of(nc.load(AGENT), None)
    assert origin == "the observation space, clipped at 10 standard deviations in training"
    assert np.isinf(found.low).all()
    features = features_in(controller, found, NOW)
    np.testing.assert_allclose(features.low, -10, rtol=1e-5)
    np.testing.assert_allclose(features.high, 10, rtol=1e-5)
    drawn = finite_box(controller, found)
    np.testing.assert_allclose((drawn.high - drawn.low) / units_of(controller), 20)


def test_a_number_is_standard_deviations_around_the_mean_of_training() -> None:
    controller, found, origin = of(nc.load(AGENT), 3)
    assert origin == "3 standard deviations around the mean in training"
    features = features_in(controller, found, NOW)
    np.testing.assert_allclose(features.high, 3, rtol=1e-5)
    np.testing.assert_allclose(feature_errors(controller, 0.01 * units_of(controller)), 0.01)


def test_a_recording_gives_its_range_widened_by_a_tenth() -> None:
    seen = np.linspace([0.0] * 8, [1.0] * 8, 11)
    _, found, origin = of(nc.load(AGENT), seen)
    np.testing.assert_allclose(found.low, -0.1)
    np.testing.assert_allclose(found.high, 1.1)
    assert origin == "the range of 11 recorded observations, widened by a tenth"


def test_every_normalised_observation_lies_in_the_features() -> None:
    controller, found, _ = of(nc.load(AGENT), (np.full(8, -2.0), np.full(8, 1.0)))
    features = features_in(controller, found, NOW)
    seen = torch.rand(1000, 8) * 3 - 2
    seen[0], seen[1] = -2.0, 1.0
    assert features.contains(controller.features(seen).numpy()).all()


def test_a_cell_without_use_for_the_elapsed_time_reads_it_as_a_feature(tmp_path: Path) -> None:
    controller, found, _ = of(small_agent("timed", tmp_path), None)
    features = features_in(controller, found, Elapsed(0.5, 2.0))
    assert len(features.low) == controller.rnn.cell.inputs


@pytest.mark.parametrize(
    ("box", "match"),
    [
        ((np.zeros(3), np.ones(3)), "a low and a high end for each of the 8 observations"),
        ((np.ones(8), np.zeros(8)), "low <= high"),
        (0.0, "must be wider than zero, got 0"),
        (np.zeros((5, 3)), r"observations of shape \(5, 3\), and the agent reads \(T, 8\)"),
        (np.full((5, 8), np.nan), "the recording holds .*nan.* at step 0, which is not finite"),
        (np.where(np.arange(40).reshape(5, 8) == 20, np.inf, 0.0), "inf.* at step 2, which is not finite"),
        (np.nan, "must be wider than zero, got nan"),
        ((np.full(8, np.nan), np.ones(8)), "low <= high"),
    ],
)
def test_a_box_that_does_not_fit_is_refused(box: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        of(nc.load(AGENT), box)
