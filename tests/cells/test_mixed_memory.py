"""Mixed memory: an LSTM in front of another cell."""

import pytest
import torch

from helpers.cell_values import drawn
from helpers.cells import build
from ncp_control.cells import MixedMemory


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
