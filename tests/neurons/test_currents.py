"""The currents of a cell are what its step adds up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.cells import ZOO, build
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, DualLTC, Held, NeuralLTC, NeuralODE
from ncp_control.neurons.base import Currents
from ncp_control.wiring import AutoNCP, GapJunctions

PLAN = AutoNCP(12, 4, seed=1)


def into_neurons(cell: Cell, found: Currents) -> Tensor:
    """The sum of the chemical currents into each neuron, (T, N)."""
    total = found.recurrent.new_zeros(len(found.recurrent), cell.units)
    total = total.index_add(1, torch.tensor(cell.wiring.sensory.target), found.sensory)
    return total.index_add(1, torch.tensor(cell.wiring.synapses.target), found.recurrent)


def test_currents_of_an_ltc_make_its_voltages_move() -> None:
    cell = LTC(3, GapJunctions(PLAN, 3)).double()
    inputs, v = torch.randn(7, 3, dtype=torch.double), 0.3 * torch.randn(7, 12, dtype=torch.double)
    found = cell.currents(inputs, v, v)
    flow = into_neurons(cell, found)
    flow = flow.index_add(1, cell.gap_ends[:, 0], found.gap).index_add(1, cell.gap_ends[:, 1], -found.gap)
    constants = cell.constants()
    rate, drive = cell.rate_and_drive(constants, cell.sense(constants, inputs), v)
    slope = (flow + cell.gleak * (cell.vleak - v)) / cell.cm
    torch.testing.assert_close(slope, drive - rate * v)


@pytest.mark.parametrize("kind", [NeuralLTC, CTRNN, NeuralODE])
def test_currents_of_an_affine_cell_add_up_to_its_argument(kind: Any) -> None:
    cell = kind(3, PLAN)
    inputs, x = torch.randn(7, 3), torch.randn(7, 12)
    constants = cell.constants()
    wanted = x @ constants.gamma_r.values + cell.sense(constants, inputs)
    torch.testing.assert_close(into_neurons(cell, cell.currents(inputs, x, x)) + cell.mu, wanted)


def test_currents_of_a_dual_ltc_add_up_to_the_argument_of_its_tanh() -> None:
    cell = DualLTC(3, PLAN)
    inputs, before = torch.randn(5, 3), torch.rand(5, 12) - 0.5
    with torch.no_grad():
        after = cell.step(inputs, before, 1e9)  # so long that every neuron arrives
    found = cell.currents(inputs, before, after)
    assert found is not None
    wanted = torch.tanh(into_neurons(cell, found) + cell.bias[0] - cell.brake * before)
    torch.testing.assert_close(wanted, after)


def test_currents_of_a_pure_cfc_add_up_to_its_argument() -> None:
    cell = CfC(3, PLAN, mode="pure")
    inputs, before = torch.randn(5, 3), torch.randn(5, 12)
    with torch.no_grad():
        after = cell.step(inputs, before)
    found = cell.currents(inputs, before, after)
    assert found is not None
    f1 = into_neurons(cell, found) + cell.bias[0]
    own = [k for k in range(12) if (k, k) not in {(s, t) for s, t, _ in cell.wiring.synapses}]
    diagonal = {int(t): k for k, (s, t) in enumerate(zip(cell.source, cell.target, strict=True)) if s == t}
    for neuron in own:  # the membrane is no synapse of the wiring
        f1[:, neuron] += before[:, neuron] * cell.weight[0, diagonal[neuron]]
    wanted = cell.A - cell.A * torch.exp(-(cell.w_tau.abs() + f1.abs())) * f1
    torch.testing.assert_close(wanted, after, rtol=1e-4, atol=1e-5)


def test_currents_of_an_lstm_and_a_gru_add_up_to_the_argument_of_the_candidate() -> None:
    inputs = torch.randn(7, 3)
    for cell in (LSTM(3, 5), GRU(3, 5)):
        before = torch.randn(7, cell.state_size)
        part = slice(2 * 5, 3 * 5)  # g of (i, f, g, o), n of (r, z, n)
        wanted = inputs @ cell.weight_ih[part].T + before[:, :5] @ cell.weight_hh[part].T
        torch.testing.assert_close(into_neurons(cell, cell.currents(inputs, before, before)), wanted)


def test_currents_of_a_ct_gru_add_up_to_the_argument_of_the_event() -> None:
    cell = CTGRU(3, 5)
    inputs, before = torch.randn(7, 3), torch.randn(7, cell.state_size)
    wanted = torch.cat([inputs, cell.neurons(before)], dim=1) @ cell.detect.weight.T
    torch.testing.assert_close(into_neurons(cell, cell.currents(inputs, before, before)), wanted)


def test_held_cells_have_the_currents_of_the_cell_inside() -> None:
    cell = LTC(3, GapJunctions(PLAN, 3))
    inputs, state = torch.randn(7, 3), 0.3 * torch.randn(7, 12)
    held = state.clone()
    held[:, 2] = 0.7
    found = Held(cell, {2: 0.7}).currents(inputs, state, state)
    for one, other in zip(found or (), cell.currents(inputs, held, held), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ZOO)
def test_every_synapse_has_a_current_and_behind_a_backbone_none_is_known(name: str) -> None:
    cell = build(name, shaken=0.1)
    inputs, before = torch.randn(4, cell.inputs), torch.rand(4, cell.state_size) - 0.5
    found = cell.currents(inputs, before, cell.step(inputs, before))
    if "backbone" in name:
        assert found is None
        return
    assert found is not None
    wiring = cell.wiring
    counts = [len(wiring.sensory), len(wiring.synapses), len(wiring.gap_junctions)]
    assert [tuple(part.shape) for part in found] == [(4, count) for count in counts]
    assert all(part.isfinite().all() for part in found)
