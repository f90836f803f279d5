"""Open-loop predictions of models whose errors are known."""

import itertools

import numpy as np
import pytest
import torch

from helpers.exact_model import Exact
from helpers.oscillators import TURN, oscillators
from ncp_control.data import Rollout, Rollouts, Scaler
from ncp_control.dynamics import DynamicsModel, Ensemble
from ncp_control.dynamics.open_loop import free_runs, long_runs, open_loop, statistics_of, time_constants


def test_an_exact_model_is_right_at_every_horizon() -> None:
    rollouts = oscillators(steps=100)
    found = open_loop(Exact(), rollouts, horizon=40, warm_up=5, every=20)
    assert found.errors.shape == (6 * 3, 40)
    assert found.errors.max() < 1e-10
    # after k steps on a circle of radius r, standing still is wrong by 2 r sin(k TURN / 2)
    std = Scaler.fit(rollouts).std
    radius = np.array([np.sum((rollout.observations[0] - 3) ** 2) for rollout in rollouts])
    seen = np.arange(1, 41)
    total = 4 * np.sin(seen * TURN / 2) ** 2 * radius.mean()
    low, high = total / 2 / std.max() ** 2, total / 2 / std.min() ** 2
    assert (found.persistence >= low - 1e-9).all()
    assert (found.persistence <= high + 1e-9).all()


def test_bands_are_quantiles_of_the_starts() -> None:
    torch.manual_seed(0)
    model = DynamicsModel.of(oscillators(), "gru", 4)
    found = open_loop(model, oscillators(), horizon=10, warm_up=4, every=7)
    low, high = found.band
    assert (low <= np.median(found.errors, axis=0)).all()
    assert (np.median(found.errors, axis=0) <= high).all()


def test_runs_read_the_actions_that_were_executed() -> None:
    rollouts = oscillators(actions=True, elapsed=True, steps=40)
    torch.manual_seed(0)
    model = DynamicsModel.of(rollouts, "ltc", 6, reads="observations+actions")
    run = free_runs(model, rollouts, horizon=6, warm_up=8, every=5)[1]
    first = rollouts[0]
    assert first.actions is not None
    assert first.elapsed is not None
    as_tensor = lambda values: torch.as_tensor(values, dtype=torch.float32)  # noqa: E731
    found = model.predict(
        as_tensor(first.observations[5:13]), 6, as_tensor(first.actions[5:18]), as_tensor(first.elapsed[6:19])
    )
    np.testing.assert_allclose(run.free, found.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.real, first.observations[13:19], rtol=1e-6)


def test_too_short_rollouts_are_refused() -> None:
    model = DynamicsModel.of(oscillators(), "gru", 4)
    with pytest.raises(ValueError, match="no rollout has 232 observations"):
        free_runs(model, oscillators(), horizon=200)


def test_the_gait_of_a_sine_is_its_frequency() -> None:
    time = np.arange(400)
    values = np.stack([np.sin(2 * np.pi * 0.05 * time), 3 * np.cos(2 * np.pi * 0.05 * time)], axis=1)
    found = statistics_of(values, np.zeros(2), np.array([1.0, 3.0]) / np.sqrt(2))
    assert found.frequency == pytest.approx(0.05)
    assert found.energy == pytest.approx(1.0, rel=1e-2)
    assert found.peak > 0.99
    still = statistics_of(np.ones((400, 2)), np.ones(2), np.ones(2))
    assert still.energy == 0
    assert still.peak == 0
    noise = statistics_of(np.random.default_rng(0).normal(size=(400, 2)), np.zeros(2), np.ones(2))
    assert noise.peak < 0.2


def test_an_exact_model_gallops_as_the_real_one() -> None:
    found = long_runs(Exact(), oscillators(steps=300), steps=200, warm_up=10)
    for real, free in zip(found["real"], found["free"], strict=True):
        assert free.frequency == real.frequency
        assert free.frequency == pytest.approx(TURN / (2 * np.pi), abs=1 / 200)
        assert free.energy == pytest.approx(real.energy)


def test_time_constants_lie_within_their_bounds() -> None:
    model = DynamicsModel.of(oscillators(), "ltc", 7)
    found = time_constants(model, oscillators())
    assert found["median"].shape == (7,)
    order = [found[key] for key in ("low", "least", "median", "most", "high")]
    for one, other in itertools.pairwise(order):
        assert (one <= other * (1 + 1e-5)).all()
    with pytest.raises(ValueError, match="ask for those of one member"):
        time_constants(Ensemble([model]), oscillators())


def test_a_rollout_shorter_than_the_others_is_only_left_out() -> None:
    parts = [*oscillators(count=2, steps=60), Rollout(np.zeros((10, 2)), name="short")]
    assert len(free_runs(Exact(), Rollouts(tuple(parts)), horizon=20, warm_up=5, every=1000)) == 2
