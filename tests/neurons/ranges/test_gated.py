"""LSTM and GRU: how tight the certified ranges are, and when the memory of an LSTM has bounds."""

import numpy as np
import torch

from helpers.audited_cells import grown
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import between, point
from ncp_control.neurons import GRU, LSTM, Cell
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops import scan

ONCE = Elapsed(1.0, 1.0)
UNIT = between(-1.0, 1.0, 1)
HELD = torch.tensor([-1.0, 1.0])[:, None, None].expand(2, 400, 1)


def one_neuron(kind: type[LSTM | GRU], weights: list[float], biases: list[float]) -> Cell:
    """A cell of one neuron that does not read itself, with a weight and a bias for each gate."""
    cell = kind(1, 1).requires_grad_(False)
    cell.weight_hh.zero_()
    cell.bias_hh.zero_()
    cell.weight_ih.copy_(torch.tensor(weights)[:, None])
    cell.bias_ih.copy_(torch.tensor(biases))
    return cell


def test_the_memory_of_an_lstm_reaches_its_bounds() -> None:
    cell = one_neuron(LSTM, [0.0, 0.0, 2.0, 0.0], [0.3, 2.0, 0.2, 1.0])
    known = known_of(cell, ONCE)
    states = reachable(known, UNIT)
    assert known.gap is None
    reached = scan(cell, HELD)[:, -1].double().numpy()
    np.testing.assert_allclose(np.stack(states), reached, rtol=1e-4)


def test_where_a_forget_gate_stays_open_the_memory_has_no_bounds() -> None:
    known = known_of(one_neuron(LSTM, [0.0, 0.0, 2.0, 0.0], [0.3, 30.0, 0.2, 1.0]), ONCE)
    states = reachable(known, UNIT)
    assert [states.low[1], states.high[1]] == [-np.inf, np.inf]
    assert states.size[0] <= 1
    assert known.gap is not None
    assert "forget gate" in known.gap
    assert known.slopes(states, UNIT) is None


def test_a_gru_reaches_its_bounds() -> None:
    cell = one_neuron(GRU, [0.0, 0.0, 2.0], [0.3, 1.0, 0.2])
    states = reachable(known_of(cell, ONCE), UNIT)
    reached = scan(cell, HELD)[:, -1].double().numpy()
    np.testing.assert_allclose(np.stack(states), reached, rtol=1e-4)


def test_the_time_constant_is_that_of_the_gate_which_keeps_the_state() -> None:
    for kind, weights, biases in ((LSTM, [0, 1, 0, 0], [0, 2, 0, 0]), (GRU, [0, 1, 0], [0, 2, 0])):
        known = known_of(one_neuron(kind, weights, biases), ONCE)
        found = known.time_constants(point(np.zeros(known.size)), UNIT)
        expected = -1 / np.log(1 / (1 + np.exp([-1.0, -3.0])))
        np.testing.assert_allclose([found.low[0], found.high[0]], expected, rtol=1e-5)


def test_a_time_constant_too_long_for_float32_is_infinite() -> None:
    cell = one_neuron(GRU, [0.0, 0.0, 0.0], [0.0, 95.0, 0.0])
    found = known_of(cell, ONCE).time_constants(point(np.zeros(1)), UNIT)
    assert cell.time_constants(torch.zeros(1, 1), torch.zeros(1, 1)).item() == np.inf
    assert found.high[0] == np.inf
    assert np.isfinite(found.low[0])


def test_the_state_after_a_point_is_a_point() -> None:
    for name in ("lstm", "gru"):
        cell = grown(name, 1.0, 1, torch.float64)
        known = known_of(cell, ONCE)
        state, features = np.linspace(-1, 1, cell.state_size), np.array([0.2, -0.4, 1.0])
        after = known.after(point(state), point(features))
        expected = cell.step(torch.as_tensor(features)[None], torch.as_tensor(state)[None])[0].numpy()
        assert (after.width < 1e-4).all()
        assert after.contains(expected).all()
