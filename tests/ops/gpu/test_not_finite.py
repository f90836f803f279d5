"""NaN and infinity take the same paths through Triton's kernels as through the reference."""

from __future__ import annotations

import math

import pytest
import torch

import ncp_control as nc
from helpers.cells import build

CELLS = ("ltc-gaps-quick", "ltc-uneven", "neural-ltc-quick", "neural-ltc-uneven", "cfc-default", "cfc-uneven")
BAD = {"a NaN": math.nan, "infinity": math.inf}


@pytest.mark.system
@pytest.mark.parametrize("value", BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("name", CELLS)
def test_a_bad_value_reaches_the_same_neurons(name: str, value: float, device: str) -> None:
    cell = build(name)
    torch.manual_seed(0)
    rows = cell.inputs + cell.units
    inputs, state = torch.randn(rows, 2, cell.inputs), torch.rand(rows, cell.units) - 0.5
    for feature in range(cell.inputs):
        inputs[feature, 0, feature] = value
    for neuron in range(cell.units):
        state[cell.inputs + neuron, neuron] = value
    wanted = nc.scan(cell, inputs, state, 0.3, backend="reference")
    found = nc.scan(cell.to(device), inputs.to(device), state.to(device), 0.3, backend="gpu").cpu()
    assert not wanted.isfinite().all()
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("name", ["ltc-gaps-quick", "neural-ltc-quick", "neural-ltc-relu"])
def test_a_very_long_step_ends_at_the_equilibrium_with_finite_gradients(name: str, device: str) -> None:
    cell = build(name)
    torch.manual_seed(0)
    inputs, state = torch.randn(2, 2, cell.inputs), torch.rand(2, cell.units) - 0.5
    found = []
    for backend, place in (("reference", "cpu"), ("gpu", device)):
        moved = cell.to(place)
        elapsed = torch.full((2, 2), 1e38, device=place, requires_grad=True)
        states = nc.scan(moved, inputs.to(place), state.to(place), elapsed, backend=backend)
        wanted = [elapsed, *(each for key, each in moved.named_parameters() if not key.startswith("output"))]
        found.append([each.cpu() for each in (states, *torch.autograd.grad(states.square().sum(), wanted))])
    for reference, ours in zip(*found, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-5)
