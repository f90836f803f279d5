"""Transforms of torch.func give what plain autograd and loops give; with backend="auto" the reference runs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, stack_module_state, vmap
from torch.func import hessian as func_hessian

import ncp_control as nc
from helpers.cells import build

# Of every kind of cell one; dopri5 chooses its steps by the values, which no transform can follow.
CELLS = ["ltc-gaps-quick", "neural-ltc-quick", "ctrnn-fused", "neural-ode-sparse", "cfc-default", "cfc-backbone"]
CELLS += ["ct-gru-one", "lstm-one", "gru-solitary", "lagged-mlp", "mixed-ltc"]


class Case:
    """A network with arguments; outputs as a function of parameters and inputs, and by the reference."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self.name = name
        self.rnn = nc.RNN(build(name, torch.float64, 0.05))
        self.parameters = {name: value.detach() for name, value in self.rnn.named_parameters()}
        self.inputs = torch.randn(2, 3, self.rnn.cell.inputs, dtype=torch.float64)
        self.named = {
            "elapsed": torch.rand(2, 3, dtype=torch.float64) + 0.1,
            "reset": torch.tensor([[False, False, True], [False, True, False]]),
            "mask": torch.tensor([[True, True, True], [True, False, True]]),
        }

    def outputs(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return functional_call(self.rnn, parameters, (inputs,), self.named)[0]

    def of_inputs(self, inputs: Tensor) -> Tensor:
        return self.outputs(self.parameters, inputs)

    def loss(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return self.outputs(parameters, inputs).square().sum()

    def plain(self, inputs: Tensor) -> Tensor:
        return nc.RNN(self.rnn.cell, backend="reference")(inputs, **self.named)[0]

    def plain_gradients(self, inputs: Tensor) -> list[Tensor]:
        loss = self.plain(inputs).square().sum()
        return list(torch.autograd.grad(loss, list(self.rnn.parameters()), materialize_grads=True))


def gradient(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    return list(grad(case.loss)(case.parameters, case.inputs).values()), case.plain_gradients(case.inputs)


def many_inputs(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    many = torch.randn(3, *case.inputs.shape, dtype=torch.float64)
    return [vmap(case.of_inputs)(many)], [torch.stack([case.plain(one) for one in many])]


def gradients_of_many(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    many = torch.randn(3, *case.inputs.shape, dtype=torch.float64)
    found = vmap(grad(case.loss), (None, 0))(case.parameters, many)
    want = zip(*[case.plain_gradients(one) for one in many], strict=True)
    return list(found.values()), [torch.stack(each) for each in want]


def jacobians(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    want = jacobian(case.plain, case.inputs)
    tangent = jvp(case.of_inputs, (case.inputs,), (torch.ones_like(case.inputs),))[1]
    found = [jacrev(case.of_inputs)(case.inputs), jacfwd(case.of_inputs)(case.inputs), tangent]
    return found, [want, want, want.sum((-1, -2, -3))]


def second_derivatives(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    found = func_hessian(lambda inputs: case.loss(case.parameters, inputs))(case.inputs)
    return [found], [hessian(lambda inputs: case.plain(inputs).square().sum(), case.inputs)]


def ensemble(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    models = [nc.RNN(build(case.name, torch.float64, 0.05 * number)) for number in range(3)]
    stacked = stack_module_state(models)
    found = vmap(lambda *state: functional_call(case.rnn, state, (case.inputs,))[0])(*stacked)
    return [found], [torch.stack([model(case.inputs)[0] for model in models])]


TRANSFORMS: list[Callable[[Case], tuple[list[Tensor], list[Tensor]]]] = [
    gradient, many_inputs, gradients_of_many, jacobians, second_derivatives, ensemble,
]  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_gives_what_loops_and_plain_autograd_give(transform, name):
    for found, want in zip(*transform(Case(name)), strict=True):
        torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-10)


def test_a_compiled_backend_says_that_it_cannot_be_transformed():
    rnn = nc.RNN(build("ltc-gaps-quick"), backend="cpu")
    for transform, shape in ((vmap, (1, 2, 3, 3)), (grad, (2, 3, 3))):
        with pytest.raises(RuntimeError, match="backend 'cpu' cannot run this scan: "):
            transform(lambda inputs: rnn(inputs)[0].sum())(torch.randn(shape))
