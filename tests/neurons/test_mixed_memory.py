"""Mixed memory: an LSTM in front of another cell."""

import pytest
import torch

import ncp_control as nc
from helpers.cell_values import drawn
from helpers.cells import build
from ncp_control.neurons import MixedMemory


@pytest.mark.parametrize("name", ["mixed-cfc", "mixed-ltc", "mixed-ct-gru", "mixed-gru"])
def test_mixed_memory_is_an_lstm_and_then_the_cell(name: str) -> None:
    cell = build(name, torch.float64)
    assert isinstance(cell, MixedMemory)
    inputs, state = drawn(cell)
    h, c = state.chunk(2, dim=1)
    gates = inputs @ cell.input_weight.T + cell.input_bias + h @ cell.recurrent_weight.T
    g, i, f, o = gates.chunk(4, dim=1)
    c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    expected = torch.cat([cell.cell.step(inputs, h, 0.3), c], dim=1)
    torch.testing.assert_close(cell.step(inputs, state, 0.3), expected)
    torch.testing.assert_close(cell.motor(expected), cell.cell.motor(expected.chunk(2, dim=1)[0]))
    torch.testing.assert_close(cell.time_constants(inputs, state), cell.cell.time_constants(inputs, h))


def test_the_currents_of_mixed_memory_are_those_that_move_the_inner_cell() -> None:
    """A neuron without leak moves by its currents alone, so that they add up to how far it goes after the LSTM."""
    inner = nc.LTC(2, nc.GapJunctions(nc.FullyConnected(3, 1, seed=6), 2), solver="euler", unfolds=1, input_map="none")
    with torch.no_grad():
        inner.gleak_raw.fill_(-torch.inf)
    cell = MixedMemory(inner.double()).double()
    inputs, before = drawn(cell)
    after = cell.step(inputs, before, 0.3)
    currents = cell.currents(inputs, before, after)
    assert currents is not None
    total = inputs.new_zeros(len(inputs), 3)
    total.index_add_(1, inner.sensory_target, currents.sensory).index_add_(1, inner.target, currents.recurrent)
    one, other = inner.gap_ends.T
    total.index_add_(1, one, currents.gap).index_add_(1, other, -currents.gap)
    gates = inputs @ cell.input_weight.T + cell.input_bias + before[:, :3] @ cell.recurrent_weight.T
    moved = torch.sigmoid(gates.chunk(4, dim=1)[3]) * torch.tanh(after.chunk(2, dim=1)[1])
    torch.testing.assert_close(moved + 0.3 * total / inner.cm, after[:, :3], rtol=1e-6, atol=1e-7)
