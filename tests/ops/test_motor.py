"""The outputs that compiled backends compute together with the states are those of the cell's own `motor`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.cells import build
from ncp_control.neurons.ltc.neuron import LTC
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

CELLS = ["ltc-wide", "ltc-gap-only", "ltc-no-maps", "neural-ltc-wide", "cfc-wide", "lstm-wide", "gru-wide"]
CELLS += ["ct-gru-wide"]
LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "outputs": lambda outputs, last, states: outputs.square().sum(),
    "states": lambda outputs, last, states: states.square().sum(),
    "last state": lambda outputs, last, states: last.square().sum(),
    "all": lambda outputs, last, states: outputs.square().sum() + last.sum() + states.sin().sum(),
    "one output": lambda outputs, last, states: outputs[:, -1, 0].sum(),
}


def gradients(rnn: nc.RNN, inputs: Tensor, loss: str) -> list[Tensor]:
    wanted = [inputs, *rnn.parameters()]
    return list(torch.autograd.grad(LOSSES[loss](*rnn(inputs, states=True)), wanted, materialize_grads=True))


@pytest.mark.parametrize("batch", [1, 5, 17, 33])
@pytest.mark.parametrize("name", CELLS)
def test_outputs_and_their_gradients_are_those_of_the_reference(name: str, batch: int, poisoned: None) -> None:
    cell = build(name, torch.float64, shaken=0.1)
    ours, reference = nc.RNN(cell, "cpu"), nc.RNN(cell, "reference")
    inputs = torch.randn(batch, 4, cell.inputs, dtype=torch.float64, requires_grad=True)
    for loss in LOSSES:
        for got, want in zip(gradients(ours, inputs, loss), gradients(reference, inputs, loss), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        outputs, _, states = ours(inputs, states=True)
        torch.testing.assert_close(outputs, cell.motor(states), rtol=1e-13, atol=1e-13)
    assert torch.equal(ours(inputs)[0], outputs)


def test_outputs_can_be_changed_in_place_without_touching_the_states() -> None:
    for name in CELLS:
        rnn = nc.RNN(build(name), "cpu")
        inputs = torch.randn(3, 2, rnn.cell.inputs)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                outputs, _, states = rnn(inputs, states=True)
                before = states.detach().clone()
                outputs.mul_(0.0)
                assert torch.equal(states, before)


def test_frozen_maps_and_frozen_circuits_train_what_is_left() -> None:
    for frozen in (("output_scale", "output_shift"), ("output_scale",), None):
        grads = []
        for backend in ("cpu", "reference"):
            cell = build("ltc-wide", shaken=0.1)
            for name, parameter in cell.named_parameters():
                parameter.requires_grad_(name not in frozen if frozen else name == "output_shift")
            nc.RNN(cell, backend)(torch.ones(3, 4, cell.inputs))[0].square().sum().backward()
            grads.append({name: parameter.grad for name, parameter in cell.named_parameters()})
        for name, want in grads[1].items():
            assert (want is None) == (grads[0][name] is None), name
            if want is not None:
                torch.testing.assert_close(grads[0][name], want, rtol=1e-4, atol=1e-6)


def test_a_class_with_outputs_of_its_own_keeps_them() -> None:
    class Squared(nc.CfC):
        def motor(self, states: Tensor) -> Tensor:
            return super().motor(states) ** 2

    inputs = torch.randn(2, 3, 5)
    cell = Squared(5, nc.AutoNCP(9, 2))
    outputs, _, states = nc.RNN(cell)(inputs, states=True)
    assert torch.equal(outputs, states[..., cell.motor_start :] ** 2)
    assert cell.motor_map() is None


@pytest.mark.parametrize("name", ["ltc-sparse", "cfc-default"])
def test_a_cell_that_was_given_outputs_of_its_own_gives_these(name: str) -> None:
    cell = build(name)
    inputs = torch.randn(2, 3, cell.inputs)
    nc.RNN(cell)(inputs)
    cell.motor = lambda states: states[..., :1]  # type: ignore[method-assign]
    outputs, _, states = nc.RNN(cell)(inputs, states=True)
    assert torch.equal(outputs, states[..., :1])


def test_maps_that_do_not_fit_the_circuit_are_named() -> None:
    cell = build("ltc-wide")
    assert isinstance(cell, LTC)
    inputs = torch.randn(2, 3, cell.inputs)
    nc.RNN(cell, "cpu")(inputs)
    cell.output_scale = torch.nn.Parameter(torch.ones(cell.outputs + 1))
    with pytest.raises(RuntimeError, match=r"the cell's output_scale has the shape \(\d+,\), but this circuit needs"):
        nc.RNN(cell, "cpu")(inputs)
