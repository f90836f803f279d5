"""Gradients of every cell and solver equal finite differences, in float64, with resets and masks."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from helpers.cells import build, names, runs
from ncp_control.neurons import CTGRU
from ncp_control.rnn import RNN

BATCH, TIME = 2, 3
# Row 1 starts anew before step 1; row 0 ends after two steps.
RESET = torch.tensor([[False, False, False], [False, True, False]])
MASK = torch.tensor([[True, True, False], [True, True, True]])
EXACT = names(exact=True)
RUNS = runs()
ELAPSED_SHAPES = {"scalar": (), "(B,)": (BATCH,), "(B,T)": (BATCH, TIME)}


def sequence(name: str, backend: str) -> tuple[RNN, Tensor, Tensor, Callable[..., tuple[Tensor, Tensor]]]:
    """A module, inputs (B, T, I), a first state (B, N), and the scan as a function of all that it depends on.

    The function takes inputs, state, elapsed and every parameter that has elements, and gives outputs and all states.
    """
    rnn = RNN(build(name, torch.float64, shaken=0.1), backend)
    torch.manual_seed(2)
    inputs = torch.randn(BATCH, TIME, rnn.cell.inputs, dtype=torch.float64, requires_grad=True)
    state = (0.5 * torch.randn(BATCH, rnn.cell.state_size, dtype=torch.float64)).requires_grad_()

    def run(inputs: Tensor, state: Tensor, elapsed: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
        names = [name for name, value in rnn.named_parameters() if value.numel()]
        parameters = dict(zip(names, values, strict=True)) if values else {}
        arguments = {"elapsed": elapsed, "reset": RESET, "mask": MASK, "states": True}
        outputs, _, states = functional_call(rnn, parameters, (inputs, state), arguments)
        return outputs, states

    return rnn, inputs, state, run


def check(run: Callable[..., tuple[Tensor, Tensor]], name: str, *arguments: Tensor) -> None:
    """Compares the gradients of random sums over all outputs and states with finite differences."""

    def sums(*arguments: Tensor) -> Tensor:
        values = torch.cat([part.flatten() for part in run(*arguments)])
        return torch.randn(2, len(values), generator=torch.Generator().manual_seed(4), dtype=values.dtype) @ values

    if name in EXACT:
        # In fast mode each argument is checked in one random direction, otherwise in every one.
        many = sum(argument.numel() for argument in arguments) > 100
        assert gradcheck(sums, arguments, eps=1e-6, atol=1e-7, rtol=1e-5, fast_mode=many, check_undefined_grad=False)
    else:
        check_directions(sums, arguments)


def check_directions(function: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> None:
    """Checks one direction for each argument, by large differences: dopri5 is smooth only within its tolerance."""
    gradients = torch.autograd.grad(function(*arguments).sum(), [x for x in arguments if x.requires_grad])
    given = iter(gradients)
    for i, argument in enumerate(arguments):
        if argument.requires_grad:
            direction = torch.randn_like(argument)
            ahead, behind = (
                function(*arguments[:i], argument.detach() + h * direction, *arguments[i + 1 :]).sum().item()
                for h in (1e-3, -1e-3)
            )
            expected = (next(given) * direction).sum().item()
            assert (ahead - behind) / 2e-3 == pytest.approx(expected, rel=1e-4, abs=1e-4)


def random_elapsed(shape: tuple[int, ...]) -> Tensor:
    return (0.2 + 0.5 * torch.rand(shape, dtype=torch.float64)).requires_grad_()


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_gradients_to_inputs_state_elapsed_and_every_parameter(name: str, backend: str) -> None:
    rnn, inputs, state, run = sequence(name, backend)
    values = [value.detach().clone().requires_grad_() for value in rnn.parameters() if value.numel()]
    check(run, name, inputs, state, random_elapsed((BATCH, TIME)), *values)


@pytest.mark.parametrize("shape", ["scalar", "(B,)"])
@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_gradients_to_elapsed_of_every_shape(name: str, backend: str, shape: str) -> None:
    _, inputs, state, run = sequence(name, backend)
    check(run, name, inputs.detach(), state.detach(), random_elapsed(ELAPSED_SHAPES[shape]))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_every_parameter_learns_from_the_start(name: str, backend: str) -> None:
    """A parameter whose first gradient is exactly zero, whatever the data, never moves."""
    rnn = RNN(build(name), backend)
    inputs = torch.randn(16, 6, rnn.cell.inputs)
    outputs, _ = rnn(inputs, elapsed=0.3 + torch.rand(16, 6))
    (outputs - torch.randn_like(outputs)).pow(2).mean().backward()
    still = [
        key for key, value in rnn.named_parameters() if value.numel() and (value.grad is None or not value.grad.any())
    ]
    # The softmax over a single time scale is constant, so the maps that choose the scale cannot learn.
    fixed = ("cell.retrieve.", "cell.store.") if isinstance(rnn.cell, CTGRU) and rnn.cell.scales == 1 else ()
    assert still == [key for key, _ in rnn.named_parameters() if key.startswith(fixed)]


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_no_gradient_passes_a_reset_or_comes_from_padding(name: str, backend: str) -> None:
    _, inputs, state, run = sequence(name, backend)
    elapsed = random_elapsed((BATCH, TIME))
    _, states = run(inputs, state, elapsed)
    # All of row 0, whose end is padding, and the part of row 1 after its reset.
    (states[0].sum() + states[1, 1:].sum()).backward()
    # The steps of an adaptive solver depend on every row, within its tolerance.
    nothing = 0.0 if name in EXACT else 1e-8
    assert inputs.grad is not None
    assert state.grad is not None
    gone = [inputs.grad[0, 2], inputs.grad[1, 0], state.grad[1]]
    if elapsed.grad is not None:
        gone += [elapsed.grad[0, 2], elapsed.grad[1, 0]]
    for gradient in gone:
        assert (gradient.abs() <= nothing).all()
    for gradient in (inputs.grad[0, 0], inputs.grad[1, 1], state.grad[0]):
        assert (gradient.abs() > 1e-6).any()


@pytest.mark.parametrize(("name", "backend"), runs(exact=True))
def test_float32_gradients_are_those_of_float64(name: str, backend: str) -> None:
    gradients = []
    for dtype in (torch.float32, torch.float64):
        rnn = RNN(build(name, dtype, shaken=0.1), backend)
        torch.manual_seed(3)
        inputs = torch.randn(5, 9, rnn.cell.inputs).to(dtype)
        outputs, _ = rnn(inputs, elapsed=0.5)
        outputs.pow(2).sum().backward()
        gradients.append([value.grad for value in rnn.parameters() if value.numel()])
    for single, double in zip(*gradients, strict=True):
        assert (single - double).abs().max() <= 1e-4 * (1e-2 + double.abs().max())
