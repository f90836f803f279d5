"""Recordings of dynamics models: what is in them is what the model predicted."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from helpers.oscillators import oscillators
from ncp_control import AutoNCP
from ncp_control.activity import record_model
from ncp_control.dynamics import DynamicsModel, Ensemble


def test_a_model_of_dynamics_is_recorded(tmp_path: Path) -> None:
    rollouts = oscillators(actions=True, elapsed=True)
    torch.manual_seed(0)
    model = DynamicsModel.of(rollouts, "ltc", AutoNCP(12, 4, seed=1), reads="observations+actions")
    first = rollouts[0]
    found = record_model(model, first, tmp_path / "all.npz")
    assert first.actions is not None
    assert first.elapsed is not None
    as_tensor = lambda values: torch.as_tensor(values, dtype=torch.float32)[None]  # noqa: E731
    with torch.no_grad():
        predictions, states = model.unrolled(
            as_tensor(first.observations[:-1]), as_tensor(first.actions), as_tensor(first.elapsed[1:])
        )
    np.testing.assert_allclose(found.neurons, states[0].numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.get("predictions"), predictions[0].numpy(), rtol=1e-4, atol=1e-4)
    free = record_model(model, first, tmp_path / "free.npz", warm_up=10, steps=30)
    wanted = model.predict(
        as_tensor(first.observations[:10]), 20, as_tensor(first.actions[:29]), as_tensor(first.elapsed[1:30])
    )
    np.testing.assert_allclose(free.observations[10:], wanted[0].numpy(), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="give one DynamicsModel instead of Ensemble"):
        record_model(Ensemble([model, model]), first, tmp_path / "no.npz")


def test_an_mlp_on_lags_is_recorded_without_time_constants(tmp_path: Path) -> None:
    rollouts = oscillators()
    model = DynamicsModel.of(rollouts, "mlp", 4)
    found = record_model(model, rollouts[0], tmp_path / "mlp.npz")
    with torch.no_grad():
        _, states = model.unrolled(torch.as_tensor(rollouts[0].observations[None, :-1], dtype=torch.float32))
        neurons = model.rnn.cell.neurons(states[0])
    np.testing.assert_allclose(found.neurons, neurons.numpy(), rtol=1e-4, atol=1e-5)
    assert np.isnan(found.time_constants).all()
    assert np.isfinite(found.sensory_currents).all()
