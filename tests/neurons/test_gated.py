"""LSTM and GRU: the same as those of torch, and the time constants of their gates."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from helpers.cell_values import sigmoid
from ncp_control.neurons import GRU, LSTM, Cell
from ncp_control.ops import available_backends
from ncp_control.rnn import RNN
from ncp_control.wiring import FullyConnected


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("ours", "theirs"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_lstm_and_gru_are_those_of_torch(ours: type[Cell], theirs: Any, backend: str) -> None:
    able, reason = available_backends()[backend]
    if not able:
        pytest.skip(reason)
    peer = theirs(3, 5, batch_first=True).double()
    rnn = RNN(ours(3, FullyConnected(5, 2)).double(), backend=backend)
    rnn.cell.load_state_dict({key.removesuffix("_l0"): value for key, value in peer.state_dict().items()})
    inputs, first = torch.randn(4, 7, 3).double(), torch.randn(4, rnn.cell.state_size).double()
    results = []
    for run in (rnn, peer):
        x, s = inputs.clone().requires_grad_(), first.clone().requires_grad_()
        if run is rnn:
            outputs, state, states = rnn(x, s, states=True)
            torch.testing.assert_close(outputs, states[:, :, 3:5], rtol=0, atol=0)
            trajectory = states[:, :, :5]
        else:
            parts = [part[None] for part in s.chunk(rnn.cell.state_size // 5, dim=1)]
            trajectory, last = peer(x, tuple(parts) if len(parts) == 2 else parts[0])
            state = torch.cat([part[0] for part in last], dim=1) if isinstance(last, tuple) else last[0]
        (trajectory.sin().sum() + state.pow(2).sum()).backward()
        results.append([trajectory, state, x.grad, s.grad, *[parameter.grad for parameter in run.parameters()]])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)
    # Elapsed time plays no part.
    assert torch.equal(rnn(inputs, first, 0.0)[0], rnn(inputs, first, 100.0)[0])


def test_time_constants_of_gates_by_hand() -> None:
    # The gate that keeps the state is the second one: f of (i, f, g, o), z of (r, z, n).
    for cell in (LSTM(2, 3), GRU(2, 3)):
        nothing = torch.zeros(1, 2), torch.zeros(1, cell.state_size)
        with torch.no_grad():
            cell.bias_ih.zero_(), cell.bias_hh.zero_()
            cell.bias_ih[3:6] = torch.tensor([0.5, 0.0, -2.0])
        expected = [-1 / math.log(sigmoid(z)) for z in (0.5, 0.0, -2.0)]
        assert cell.time_constants(*nothing)[0].tolist() == pytest.approx(expected, rel=1e-5)
        # One gate is nearly open, one is fully open, and one is closed.
        with torch.no_grad():
            cell.bias_ih[3:6] = torch.tensor([30.0, 1e6, -1e6])
        almost, always, never = cell.time_constants(*nothing)[0].tolist()
        assert almost > 1e7
        assert always == math.inf
        assert 0 <= never < 1e-5
