"""Recordings of networks: what is in them is what the network did."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.cells import build, names
from ncp_control import LTC, RNN, AutoNCP, CfC
from ncp_control.activity import record_network

PLAN = AutoNCP(12, 4, seed=1)


class SilentCfC(CfC):
    """A cell that does not know its currents or its time constants."""

    def currents(self, inputs: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> None:
        return None

    def time_constants(self, inputs: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.full((len(inputs), self.units), torch.nan)


@pytest.mark.parametrize("name", names(exact=True))
def test_a_network_is_recorded_as_it_runs(name: str, tmp_path: Path) -> None:
    # In float64, where kernels and single steps differ by less than what the recording's float32 rounds off.
    cell = build(name, torch.float64)
    rnn = RNN(cell)
    inputs, reset = torch.randn(30, cell.inputs, dtype=torch.float64), torch.zeros(30, dtype=torch.bool)
    reset[13] = True
    elapsed = torch.rand(30, dtype=torch.float64) + 0.5
    found = record_network(rnn, inputs, tmp_path / "run.npz", elapsed=elapsed, reset=reset)
    state = rnn.initial_state(1)
    for t in range(30):  # an independent pass, step by step
        state = rnn.initial_state(1) if reset[t] else state
        tau = cell.time_constants(inputs[t : t + 1], state)
        np.testing.assert_allclose(1 / found.time_constants[t], 1 / tau[0].detach().numpy(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            state = cell.step(inputs[t : t + 1], state, float(elapsed[t]))
        own = found.get("states")
        np.testing.assert_allclose((found.neurons if own is None else own)[t], state[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.outputs[t], cell.motor(state)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert found.episode_starts.tolist() == [t in (0, 13) for t in range(30)]
    assert found.wiring == rnn.wiring
    assert found.about["cell"]["cell"] == type(cell).__name__
    assert found.get("saliency") is not None


def test_saliency_is_the_derivative_times_the_inputs_spread(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rnn = RNN(LTC(3, PLAN)).double()
    inputs = torch.randn(20, 3, dtype=torch.double)
    found = record_network(rnn, inputs, tmp_path / "run.npz").get("saliency")
    assert found is not None
    _, _, states = rnn(inputs, states=True)
    before = torch.cat([rnn.initial_state(1), states[:-1]]).detach()
    step = 1e-6
    for k in range(3):
        moved = inputs.clone()
        moved[:, k] += step
        with torch.no_grad():
            slope = (rnn.cell.step(moved, before) - rnn.cell.step(inputs, before)) / step
        wanted = slope.square().mean(0).sqrt() * inputs[:, k].std(correction=0)
        np.testing.assert_allclose(found[:, k], wanted.numpy(), rtol=1e-3, atol=1e-6)


def test_what_a_cell_does_not_know_is_not_known_in_its_recording(tmp_path: Path) -> None:
    found = record_network(RNN(SilentCfC(3, PLAN)), torch.randn(9, 3), tmp_path / "run.npz")
    assert not found.currents_are_known
    assert not found.time_constants_are_known
    assert np.isfinite(found.neurons).all()
    known = record_network(RNN(CfC(3, PLAN)), torch.randn(9, 3), tmp_path / "known.npz")
    assert known.currents_are_known
    assert known.time_constants_are_known
