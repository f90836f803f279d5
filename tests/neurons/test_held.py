"""Held neurons and cut synapses: what the rest of the circuit does then."""

import pytest
import torch

from ncp_control import CTGRU, CTRNN, GRU, LSTM, LTC, RNN, AutoNCP, CfC, NeuralLTC, NeuralODE, Wiring
from ncp_control.neurons import Cell, Held, without_synapses

PLAN = AutoNCP(14, 4, seed=2)


def cells() -> list[Cell]:
    torch.manual_seed(0)
    return [
        LTC(5, PLAN), LTC(5, PLAN, solver="rk4", unfolds=2), NeuralLTC(5, PLAN), CTRNN(5, PLAN), NeuralODE(5, PLAN),
        CfC(5, PLAN), CfC(5, PLAN, mode="pure"), GRU(5, 6), LSTM(5, 6),
    ]  # fmt: skip


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{type(cell).__name__}-{getattr(cell, 'mode', '')}")
def test_nothing_held_is_the_cell_itself(cell: Cell) -> None:
    inputs = torch.randn(2, 6, 5)
    found, _, states = RNN(Held(cell, {}))(inputs, states=True)
    wanted, _, own = RNN(cell, backend="reference")(inputs, states=True)
    torch.testing.assert_close(states, own, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{type(cell).__name__}-{getattr(cell, 'mode', '')}")
def test_a_held_neuron_stays_and_the_others_see_it_there(cell: Cell) -> None:
    inputs = torch.randn(2, 6, 5)
    held = RNN(Held(cell, {1: 0.7}))
    _, _, states = held(inputs, states=True)
    assert (states[..., 1] == 0.7).all()
    # synapses into a held neuron make no difference
    into = [k for k, target in enumerate(cell.wiring.synapses.target) if target == 1]
    sensory = [k for k, target in enumerate(cell.wiring.sensory.target) if target == 1]
    deaf = without_synapses(cell, into, sensory)
    _, _, same = RNN(Held(deaf, {1: 0.7}))(inputs, states=True)
    torch.testing.assert_close(cell.neurons(same), cell.neurons(states))  # what an LSTM remembers is heard by nobody
    # the value at which it is held does
    _, _, other = RNN(Held(cell, {1: -0.7}))(inputs, states=True)
    rest = [k for k in range(cell.units) if k != 1]
    assert not torch.allclose(other[..., rest], states[..., rest])


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{type(cell).__name__}-{getattr(cell, 'mode', '')}")
def test_a_neuron_without_outgoing_synapses_is_heard_by_nobody(cell: Cell) -> None:
    source = 0
    leaving = [
        k for k, (one, other) in enumerate(zip(cell.wiring.synapses.source, cell.wiring.synapses.target, strict=True))
        if one == source and other != source
    ]  # fmt: skip
    assert leaving
    silent = without_synapses(cell, leaving)
    inputs = torch.randn(2, 5, 5)
    state = 0.1 * torch.randn(2, cell.state_size)
    moved = state.clone()
    moved[:, source] += 1.0
    found = []
    for start in (state, moved):
        _, _, states = RNN(silent)(inputs, start, states=True)
        found.append(states[:, 0, 1 : cell.units])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    _, _, whole = RNN(cell)(inputs, moved, states=True)
    assert not torch.allclose(whole[:, 0, 1 : cell.units], found[1], atol=1e-6)


@pytest.mark.parametrize("value", [5.0, -5.0])
def test_a_value_outside_the_bounds_widens_those_of_neurons_that_gap_junctions_join_to_it(value: float) -> None:
    pairs = [(0, 1), (1, 2)]
    wiring = Wiring.from_edges(1, inter=3, motor=1, sensory=[(0, 0)], synapses=[(0, 3)], gap_junctions=pairs)
    cell = LTC(1, wiring)
    with torch.no_grad():
        cell.gap_raw.fill_(5.0), cell.gleak_raw.fill_(-5.0)
    held = Held(cell, {0: value})
    states = RNN(held)(torch.randn(4, 50, 1), states=True)[2]
    (low, high), (inner_low, inner_high) = held.state_bounds(), cell.state_bounds()
    assert ((states >= low) & (states <= high)).all()
    outside = ((states < inner_low) | (states > inner_high)).any(1).any(0)
    assert outside.tolist() == [True, True, True, False]
    assert (low[3], high[3]) == (inner_low[3], inner_high[3])


def test_what_cannot_be_held_or_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no neuron 14: the circuit has 14"):
        Held(LTC(5, PLAN), {14: 0.0})
    with pytest.raises(ValueError, match="more state than one number a neuron"):
        Held(CTGRU(5, 6), {0: 0.0})
    with pytest.raises(ValueError, match="cannot be cut one by one"):
        without_synapses(CTGRU(5, 6), [0])
    with pytest.raises(ValueError, match="behind a backbone"):
        Held(CfC(5, 6, backbone=(8,)), {0: 0.0})
