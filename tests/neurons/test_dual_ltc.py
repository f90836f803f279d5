"""The DualLTC: its step by hand, that it is exact, what its brake does, and what is refused."""

import contextlib
import math
from typing import Any

import pytest
import torch

import ncp_control as nc
from helpers.cell_values import changed, drawn, sigmoid
from helpers.cells import DEEP_9, DENSE_5, NCP_7, RANDOM_5, SOLITARY
from helpers.levels import at_level
from helpers.slow_neurons import SLOW, time_constants_of_a_step
from ncp_control.neurons import DualLTC
from ncp_control.ops.cpu.library import LEVELS
from ncp_control.wiring import Plan


def stirred(plan: Plan | int, **settings: Any) -> DualLTC:
    """A cell in float64 with all of its parameters moved."""
    cell = DualLTC(2, plan, **settings).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return cell


def step_by_hand(cell: DualLTC, inputs: list[float], old: list[float], elapsed: float) -> list[float]:
    """Computes a step neuron by neuron: earlier layers count with this step's value, others with the last."""
    wiring, new = cell.wiring, list(old)
    layer_of = {n: k for k, part in enumerate(wiring.layers.values()) for n in range(part.start, part.stop)}
    shortest, longest = cell.time_constants_range
    for j in range(cell.units):
        maps = cell.bias[:, j].tolist()
        for h in range(2):
            for e, (s, t, _) in enumerate(wiring.sensory):
                maps[h] += cell.sensory_weight[h, e].item() * inputs[s] if t == j else 0.0
            for e, (s, t, _) in enumerate(wiring.synapses):
                heard = new[s] if layer_of[s] < layer_of[t] else old[s]
                maps[h] += cell.weight[h, e].item() * heard if t == j else 0.0
        brake = 0.0 if cell.brake_raw is None else cell.strongest_brake * sigmoid(cell.brake_raw[j].item())
        towards, share = math.tanh(maps[0] - brake * old[j]), sigmoid(maps[1])
        tau = shortest**share * longest ** (1 - share)
        new[j] = towards + math.exp(-elapsed / tau) * (old[j] - towards)
    return new


@pytest.mark.parametrize("brake", [True, False, 0.4])
@pytest.mark.parametrize("plan", [NCP_7, DEEP_9, DENSE_5, RANDOM_5], ids=["ncp", "deep", "dense", "random"])
def test_a_step_by_hand(plan: Plan, brake: bool | float) -> None:
    cell = stirred(plan, brake=brake)
    inputs, state = drawn(cell)
    found = cell.step(inputs, state, 0.7)
    for row in range(3):
        expected = step_by_hand(cell, inputs[row].tolist(), state[row].tolist(), 0.7)
        assert found[row].tolist() == pytest.approx(expected, rel=1e-4)  # tau keeps some room for rounding in its range


def test_a_step_solves_the_equation() -> None:
    """Many short steps of a neuron without a brake or a synapse to itself are one long step, whatever their lengths."""
    cell = stirred(1, brake=False)
    with torch.no_grad():
        cell.weight.zero_()
    inputs, state = torch.randn(1, 2).double(), torch.tensor([[0.4]]).double()
    once, many = cell.step(inputs, state, 2.0), state
    for part in (0.1, 0.5, 1e-3, 1.399):
        many = cell.step(inputs, many, part)
    torch.testing.assert_close(many, once, rtol=1e-12, atol=0)


@SLOW
@pytest.mark.parametrize("backend", ["reference", *LEVELS])
def test_a_slow_neuron_moves_by_its_time_constant_in_float32(backend: str, tau: float, elapsed: float) -> None:
    with at_level(backend) if backend in LEVELS else contextlib.nullcontext():
        found = time_constants_of_a_step(tau, elapsed, "cpu" if backend in LEVELS else backend)
    assert found == pytest.approx((tau, tau), rel=1e-3)


def test_no_state_moves_while_no_time_passes() -> None:
    cell = stirred(DEEP_9).float()
    inputs, state = torch.randn(3, 50, 2), torch.rand(3, cell.units)
    for backend in ("reference", "cpu"):
        assert (nc.scan(cell, inputs, state, elapsed=0.0, backend=backend) == state[:, None]).all()


def test_a_signal_passes_from_the_inputs_to_the_motor_neurons_in_one_step() -> None:
    cell = stirred(DEEP_9)
    inputs, state = drawn(cell)
    motor = set(range(cell.motor_start, cell.units))
    assert changed(cell, (inputs, state), (inputs + 1, state)) >= motor


def test_a_neuron_with_a_brake_answers_to_what_changes_more_than_to_what_lasts() -> None:
    overshoot = {}
    for brake in (True, False):
        cell = DualLTC(1, SOLITARY, brake=brake).requires_grad_(False)
        cell.sensory_weight.copy_(torch.tensor([[1.0], [0.0]]))
        cell.bias.copy_(torch.tensor([[0.0], [30.0]]))  # as fast as it can be
        if cell.brake_raw is not None:
            cell.brake_raw.fill_(2.0)
        states = nc.scan(cell, torch.ones(1, 200, 1))[0, :, 0]
        overshoot[brake] = float(states[0] - states[-1])
    assert overshoot[False] == 0
    assert overshoot[True] > 0.2


def test_both_weights_of_a_cut_synapse_are_zero() -> None:
    cell = stirred(NCP_7)
    with torch.no_grad():
        cell.cut_synapses([1], [0], [])
    assert not cell.weight[:, 1].any()
    assert not cell.sensory_weight[:, 0].any()
    assert cell.weight[:, 0].all()


def test_new_neurons_are_fast_and_slow() -> None:
    cell = DualLTC(3, 200)
    tau = cell.time_constants(torch.zeros(1, 3), torch.zeros(1, 200))[0]
    assert tau.min() < 0.15
    assert tau.max() > 8
    assert cell.brake is not None
    assert (cell.brake - 0.107).abs().max() < 1e-3


@pytest.mark.parametrize("given", [None, (1.0, 1.0), (2.0, 1.0), (0.0, 1.0), (1.0, float("inf")), (-1, 1)])
def test_a_range_of_time_constants_without_two_ends_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="time_constants must be"):
        DualLTC(3, NCP_7, time_constants=given)


@pytest.mark.parametrize(("given", "strongest"), [(True, 0.9), (False, 0.0), (0.9, 0.9), (0.3, 0.3)])
def test_no_brake_is_stronger_than_was_given(given: bool | float, strongest: float) -> None:
    cell = DualLTC(3, NCP_7, brake=given)
    assert cell.strongest_brake == strongest
    assert cell.config()["brake"] == (given if given != 0.9 else True)
    if cell.brake_raw is not None:
        with torch.no_grad():
            cell.brake_raw.copy_(torch.linspace(-50, 50, 7))
        assert cell.brake is not None
        brakes = cell.brake.detach()
        assert brakes[0] < 1e-6
        assert brakes[-1].item() == pytest.approx(strongest)
        program = cell.program()
        assert program is not None
        assert program.parameters[3] is not None
        torch.testing.assert_close(0.9 * torch.sigmoid(program.parameters[3]), brakes)


@pytest.mark.parametrize("strongest", [0.5, 0.9 * (1 - 1e-15), True])
def test_a_brake_that_is_nearly_nothing_or_all_has_the_gradient_of_the_reference(strongest: bool | float) -> None:
    cell = DualLTC(2, 7, brake=strongest)
    inputs, grads = torch.randn(3, 4, 2), {}
    assert cell.brake_raw is not None
    with torch.no_grad():
        cell.brake_raw.copy_(torch.tensor([-300.0, -100.0, -88.0, -9.0, 5.0, 90.0, 300.0]))
    for backend in ("reference", "cpu"):
        (grads[backend],) = torch.autograd.grad(nc.scan(cell, inputs, backend=backend).sum(), [cell.brake_raw])
    assert grads["reference"][3:5].all()
    torch.testing.assert_close(grads["cpu"], grads["reference"], rtol=1e-4, atol=1e-15)


@pytest.mark.parametrize("elapsed", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("strongest", [0.2, 0.9])
def test_by_itself_a_neuron_forgets_by_its_slowest_time_constant_or_its_strongest_brake(
    strongest: float, elapsed: float
) -> None:
    cell = stirred(1, brake=strongest, time_constants=(0.05, 2.0))
    with torch.no_grad():
        cell.weight.zero_()
        assert cell.brake_raw is not None
        cell.brake_raw.fill_(50.0)
    inputs, states = torch.randn(400, 2).double(), torch.rand(400, 1).double() * 2 - 1
    apart = (cell.step(inputs, states, elapsed) - cell.step(inputs, states + 1e-3, elapsed)).abs() / 1e-3
    assert apart.max() <= max(strongest, math.exp(-elapsed / 2)) + 1e-3


@pytest.mark.parametrize("given", [0.0, 0, 1, 0.95, -0.1, float("nan")])
def test_a_brake_that_could_let_a_neuron_swing_is_refused(given: float) -> None:
    with pytest.raises(ValueError, match=r"brake must be True, False, or a number above 0 and at most 0\.9"):
        DualLTC(3, NCP_7, brake=given)
