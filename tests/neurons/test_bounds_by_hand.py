"""The bounds of every kind of cell, by hand."""

import torch

from helpers.cell_values import assert_inside, exact, set_values
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, CfC, DualLTC, MixedMemory, NeuralLTC, NeuralODE
from ncp_control.ops import scan
from ncp_control.wiring import Wiring


def three_neurons() -> LTC:
    """inter0 -> command0 -> motor0, command0 -> inter0, and a gap junction between inter0 and motor0."""
    wiring = Wiring.from_edges(
        1,
        inter=1,
        command=1,
        motor=1,
        sensory=[(0, 0)],
        synapses=[(1, 0, -1), (0, 1), (1, 2, -1)],
        gap_junctions=[(0, 2)],
    )
    cell = LTC(1, wiring).double()
    # Synapses are sorted by target: 1 -> 0, 0 -> 1, 1 -> 2.
    set_values(cell, cm=[2.0, 3.0, 1.0], gleak=[0.5, 1.0, 0.25], vleak=[-0.1, 0.2, -0.4])
    set_values(cell, w=[0.6, 2.0, 0.5], E=[-0.9, 1.5, -0.3], sensory_w=[0.4], sensory_E=[0.7], gap=[0.5])
    return cell


def test_ltc_bounds_by_hand() -> None:
    cell = three_neurons()
    low, high = cell.time_constant_bounds()
    # 2018, Eq. 40: cm / (gleak + sum w + sum gap) and cm / (gleak + sum gap)
    expected = [2 / (0.5 + 0.6 + 0.4 + 0.5), 3 / (1 + 2), 1 / (0.25 + 0.5 + 0.5)]
    torch.testing.assert_close(low, exact(expected), rtol=1e-9, atol=0)
    expected = [2 / (0.5 + 0.5), 3 / 1, 1 / (0.25 + 0.5)]
    torch.testing.assert_close(high, exact(expected), rtol=1e-9, atol=0)
    low, high = cell.state_bounds()
    # 2018, Eq. 50, widened to zero: inter0 [-0.9, 0.7], command0 [0, 1.5], motor0 [-0.4, 0]; a gap junction joins
    # inter0 and motor0, which share their bounds.
    torch.testing.assert_close(low, exact([-0.9, 0.0, -0.9]), rtol=1e-9, atol=0)
    torch.testing.assert_close(high, exact([0.7, 1.5, 0.7]), rtol=1e-9, atol=0)


def test_gap_junctions_join_bounds_of_a_whole_group() -> None:
    wiring = Wiring.from_edges(
        1, motor=5, sensory=[(0, i, 1) for i in range(5)], gap_junctions=[(0, 3), (3, 4), (1, 2)]
    )
    cell = LTC(1, wiring)
    set_values(cell, vleak=[-0.5, 0.0, -0.7, 0.0, 0.0], sensory_E=[0.1, 0.2, 0.3, 0.4, 0.9])
    low, high = cell.state_bounds()
    torch.testing.assert_close(low, torch.tensor([-0.5, -0.7, -0.7, -0.5, -0.5]))
    torch.testing.assert_close(high, torch.tensor([0.9, 0.3, 0.3, 0.9, 0.9]))


def test_a_gap_junction_can_take_a_neuron_beyond_its_own_potentials() -> None:
    """This is why joined neurons share their bounds: a silent neuron follows its neighbour."""
    cell = three_neurons()
    set_values(cell, gleak=[0.5, 1.0, 1e-3], w=[0.6, 2.0, 1e-3], gap=[5.0], sensory_w=[50.0])
    state = scan(cell, torch.ones(1, 50, 1).double() * 9)[0, -1]
    assert state[2] > 0.6
    assert_inside(state, cell.state_bounds())


def test_neural_ltc_bounds_by_hand() -> None:
    tau, A = [0.25, 1.0, 4.0], [1.5, -2.0, 0.0]
    infinite = float("inf")
    time_constants = {
        "sigmoid": ([0.2, 0.5, 0.8], tau),  # Theorem 1: tau / (1 + tau) and tau
        "relu": ([0.0, 0.0, 0.0], tau),
        "tanh": ([0.2, 0.5, 0.8], [1 / 3, infinite, infinite]),  # 1 / (1 / tau - 1)
        "hard_tanh": ([0.2, 0.5, 0.8], [1 / 3, infinite, infinite]),
    }
    positive = ([0.0, -2.0, 0.0], [1.5, 0.0, 0.0])  # Theorem 2: min(0, A) and max(0, A)
    # f A / (1 / tau + f) at f = -1 and 1 for tau = 1/4: -1.5 / 3 and 1.5 / 5
    either = ([-0.5, -infinite, -infinite], [0.3, infinite, infinite])
    states = {"sigmoid": positive, "relu": positive, "tanh": either, "hard_tanh": either}
    for activation in states:
        cell = NeuralLTC(2, 3, activation=activation)
        set_values(cell, tau=tau, A=A)
        for found, expected in (
            (cell.time_constant_bounds(), time_constants[activation]),
            (cell.state_bounds(), states[activation]),
        ):
            torch.testing.assert_close(torch.stack(found), torch.tensor(expected), rtol=1e-6, atol=1e-6)


def test_bounds_of_the_other_cells_by_hand() -> None:
    infinite = float("inf")
    ctrnn = CTRNN(2, 3, solver="fused")
    set_values(ctrnn, tau=[0.5, 1.0, 3.0])
    torch.testing.assert_close(torch.stack(ctrnn.state_bounds()), torch.tensor([[-0.5, -1, -3], [0.5, 1, 3]]))
    torch.testing.assert_close(torch.stack(ctrnn.time_constant_bounds()), torch.tensor([[0.5, 1, 3], [0.5, 1, 3]]))
    sigmoid = CTRNN(2, 2, solver="fused", activation="sigmoid")
    torch.testing.assert_close(torch.stack(sigmoid.state_bounds()), torch.tensor([[0.0, 0], [1, 1]]))
    ode = NeuralODE(2, 2)
    assert torch.stack(ode.state_bounds()).tolist() == [[-infinite] * 2, [infinite] * 2]
    assert torch.stack(ode.time_constant_bounds()).tolist() == [[infinite] * 2] * 2
    assert torch.stack(CfC(2, 2).state_bounds()).tolist() == [[-1, -1], [1, 1]]
    assert torch.stack(CfC(2, 2, mode="no_gate").state_bounds()).tolist() == [[-2, -2], [2, 2]]
    assert torch.stack(CfC(2, 2, mode="pure").state_bounds()).tolist() == [[-infinite] * 2, [infinite] * 2]
    dual = DualLTC(2, 2, time_constants=(0.5, 4.0))
    assert torch.stack(dual.state_bounds()).tolist() == [[-1, -1], [1, 1]]
    assert torch.stack(dual.time_constant_bounds()).tolist() == [[0.5, 0.5], [4, 4]]
    assert torch.stack(LSTM(2, 2).state_bounds()).tolist() == [
        [-1, -1, -infinite, -infinite],
        [1, 1, infinite, infinite],
    ]
    assert torch.stack(GRU(2, 2).state_bounds()).tolist() == [[-1, -1], [1, 1]]
    ct_gru = CTGRU(2, 2, scales=3)
    assert torch.stack(ct_gru.state_bounds()).tolist() == [[-1] * 6, [1] * 6]
    torch.testing.assert_close(torch.stack(ct_gru.time_constant_bounds()), torch.tensor([[1.0, 1], [10, 10]]))
    mixed = MixedMemory(CTRNN(2, 2, solver="fused", time_constants=(3.0, 3.0)))
    torch.testing.assert_close(
        torch.stack(mixed.state_bounds()), torch.tensor([[-3, -3, -infinite, -infinite], [3, 3, infinite, infinite]])
    )
