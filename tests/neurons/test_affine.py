"""NeuralLTC, CT-RNN and Neural ODE: their equations by hand, and how they start."""

import math
from typing import Any

import pytest
import torch

from helpers.cell_values import exact, set_values, sigmoid
from ncp_control import scan
from ncp_control.neurons import CTRNN, GRU, LSTM, NeuralLTC, NeuralODE
from ncp_control.wiring import AutoNCP, Wiring

SELF = Wiring.from_edges(1, motor=1, sensory=[(0, 0, -1)], synapses=[(0, 0)])


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("sigmoid", sigmoid),
        ("relu", lambda z: max(z, 0.0)),
        ("tanh", math.tanh),
        ("hard_tanh", lambda z: min(max(z, -1.0), 1.0)),
    ],
)
def test_affine_cells_by_hand(activation: str, function: Any) -> None:
    for x in (0.4, 2.5, -3.0):
        f = function(0.7 * 0.25 - 1.3 * x + 0.5)
        inputs, state, h = exact([[x]]), exact([[0.25]]), 0.3
        common = {"gamma": -1.3, "gamma_r": 0.7, "mu": 0.5}

        liquid = NeuralLTC(1, SELF, activation=activation, unfolds=1).double()
        set_values(liquid, **common, tau=0.6, A=1.7)
        expected = (0.25 + h * f * 1.7) / (1 + h * (1 / 0.6 + f))
        assert liquid.step(inputs, state, h).item() == pytest.approx(expected, rel=1e-9)
        assert liquid.time_constants(inputs, state).item() == pytest.approx(0.6 / (1 + 0.6 * f), rel=1e-9)

        if activation in ("tanh", "hard_tanh"):
            signed = NeuralLTC(1, SELF, activation=activation, signed=True, unfolds=1).double()
            set_values(signed, **common, tau=0.6, A=1.7)
            expected = (0.25 + h * f * 1.7) / (1 + h * (1 / 0.6 + abs(f)))
            assert signed.step(inputs, state, h).item() == pytest.approx(expected, rel=1e-9)
            assert signed.time_constants(inputs, state).item() == pytest.approx(0.6 / (1 + 0.6 * abs(f)), rel=1e-9)

        ctrnn = CTRNN(1, SELF, activation=activation, unfolds=1).double()
        set_values(ctrnn, **common, tau=0.6)
        assert ctrnn.step(inputs, state, h).item() == pytest.approx(0.25 + h * (f - 0.25 / 0.6), rel=1e-9)
        assert ctrnn.time_constants(inputs, state).item() == pytest.approx(0.6, rel=1e-9)

        ode = NeuralODE(1, SELF, activation=activation, solver="euler", unfolds=1).double()
        set_values(ode, **common)
        assert ode.step(inputs, state, h).item() == pytest.approx(0.25 + h * f, rel=1e-9)
        assert ode.time_constants(inputs, state).item() == math.inf


def test_neural_ltc_starts_as_its_init_says() -> None:
    paper = NeuralLTC(3, 200)
    assert 0.01 <= paper.tau.min() < 0.015
    assert 0.7 < paper.tau.max() <= 1 + 1e-6
    # log-uniform: as many below 0.1 as above
    assert 70 < (paper.tau < 0.1).sum() < 130
    assert paper.A.std().item() == pytest.approx(1, abs=0.15)
    constant = NeuralLTC(3, 200, init="constant")
    torch.testing.assert_close(constant.tau, torch.ones(200))
    assert constant.A.std().item() == pytest.approx(1, abs=0.15)
    zero = NeuralLTC(3, 200, init="zero")
    torch.testing.assert_close(zero.tau, torch.ones(200))
    assert not zero.A.any()


def test_a_calibrated_neuron_passes_small_signals_on_as_they_are() -> None:
    cell = NeuralLTC(1, SELF, activation="tanh", signed=True, init="calibrated", unfolds=200).double()
    set_values(cell, gamma=1.0, gamma_r=0.0, mu=0.0)
    settled = scan(cell, exact([[[0.01]] * 50]))[0, -1]
    assert settled.abs().item() == pytest.approx(0.01, rel=0.02)
    tau = NeuralLTC(3, 200, activation="tanh", signed=True, init="calibrated").tau
    assert [tau.min().item(), tau.max().item()] == pytest.approx([0.05, 1.0], rel=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_signed_is_refused_where_nothing_is_negative(activation: str) -> None:
    with pytest.raises(ValueError, match=f"{activation} is never negative: leave signed False"):
        NeuralLTC(3, 4, activation=activation, signed=True)


def test_no_step_of_any_length_leaves_a_signed_neurons_bounds_and_the_longest_reaches_them() -> None:
    cell = NeuralLTC(1, SELF, activation="hard_tanh", signed=True, unfolds=1).double()
    set_values(cell, gamma=5.0, gamma_r=0.0, mu=0.0, tau=3.0, A=-2.0)
    low, high = cell.state_bounds()
    assert (low.item(), high.item()) == pytest.approx((-1.5, 1.5))
    for elapsed in (1e-3, 1.0, 1e6):
        reached = scan(cell, exact([[[1.0]] * 9, [[-1.0]] * 9, [[0.1]] * 9]), elapsed=elapsed)
        assert reached.abs().max() <= 1.5 + 1e-12
    assert reached.abs().max().item() == pytest.approx(1.5, rel=1e-5)


def test_weights_start_with_their_variance_over_the_fan_in() -> None:
    for make in (NeuralLTC, CTRNN, NeuralODE):
        cell = make(10, 90, weight_variance=3.0, bias_variance=0.5)
        # Every neuron hears 10 inputs and 90 neurons.
        assert cell.gamma_r.std().item() == pytest.approx(math.sqrt(3 / 100), rel=0.05)
        assert cell.gamma.std().item() == pytest.approx(math.sqrt(3 / 100), rel=0.1)
        assert cell.mu.std().item() == pytest.approx(math.sqrt(0.5), rel=0.25)
        assert not make(2, 3, bias_variance=0.0).mu.any()
    sparse = NeuralLTC(4, AutoNCP(120, 20, seed=1), weight_variance=3.0)
    fan_in = torch.tensor(sparse.wiring.fan_in)
    assert fan_in.max() > 4 * fan_in.min()
    for weight, target in ((sparse.gamma, sparse.sensory_target), (sparse.gamma_r, sparse.target)):
        assert (weight * fan_in[target].sqrt()).std().item() == pytest.approx(math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("parent", [NeuralLTC, CTRNN, NeuralODE, LSTM, GRU])
def test_a_class_of_ones_own_never_runs_on_the_compiled_step_of_its_parent(parent: Any) -> None:
    """Not even one that says it is of this package."""

    class Quiet(parent):
        __module__ = "ncp_control.neurons.quiet"

        def advance(self, constants: Any, sensed: Any, state: Any, elapsed: Any) -> Any:
            return 0 * super().advance(constants, sensed, state, elapsed)

    assert parent(2, 3).program() is not None
    assert Quiet(2, 3).program() is None
    assert not scan(Quiet(2, 3), torch.randn(1, 4, 2)).any()
