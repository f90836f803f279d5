"""Recordings of dynamics models: what is in them is what the model predicted."""

from pathlib import Path

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")

from helpers.oscillators import oscillators  # noqa: E402
from ncp_control import AutoNCP  # noqa: E402
from ncp_control.activity import record_model  # noqa: E402
from ncp_control.data import Rollout, Rollouts  # noqa: E402
from ncp_control.dynamics import DynamicsEnv, DynamicsModel, Ensemble  # noqa: E402
from ncp_envs import observation_names  # noqa: E402


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


@pytest.mark.parametrize("body", ["HalfCheetah-v5", "Walker2d-v5"])
def test_only_a_half_cheetahs_observations_are_drawn_as_one(body: str, tmp_path: Path) -> None:
    """A Walker2d has as many observations and actions."""
    pytest.importorskip("mujoco")
    names = tuple(observation_names(gym.make(body)))
    random = np.random.default_rng(0)
    some = tuple(Rollout(random.normal(size=(9, 17)), actions=random.uniform(-1, 1, (8, 6))) for _ in range(3))
    rollouts = Rollouts(some, observation_names=names)
    model = DynamicsModel.of(rollouts, "gru", 4, reads="observations+actions")
    found = record_model(model, rollouts[0], tmp_path / "run.npz")
    assert ("body_ends" in found.extras) == (body == "HalfCheetah-v5")
    if body == "HalfCheetah-v5":
        assert DynamicsEnv(model).reset(seed=0)[0].shape == (17,)
    else:
        with pytest.raises(ValueError, match="only HalfCheetah's reward is known"):
            DynamicsEnv(model)


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
