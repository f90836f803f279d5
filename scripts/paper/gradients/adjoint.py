"""The gradient of an ODE cell network over a sequence, by backpropagation through time and by the adjoint method.

Every input I_k is held for one unit of time, and the loss depends on the last state::

    dx/dt = drive(x, I_k) - rate(x, I_k) x    on [k, k + 1],        loss = sum (x(T) - target)^2 / 2

Backpropagation differentiates the steps that a solver took. The adjoint method (Chen et al., 2018) keeps none of these
steps. It solves backward in time for the state, and for the gradients a of the state and b of the parameters::

    da/dt = -a df/dx,    db/dt = -a df/dtheta

in one solve over the whole sequence, or in one solve for each input, from a state that was kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchdiffeq import odeint, odeint_adjoint

from ncp_control.neurons.parameters import Weights
from ncp_control.ops import scan
from scripts.paper.gradients.autograd_cost import graph_depth
from scripts.paper.gradients.held_inputs import Field, GivenUp, Problem

PATIENCE = 16  # a backward solve is given up after this many times the evaluations of its forward solve


class Method(NamedTuple):
    """A solver and a way to differentiate it.

    :param name: its name in tables and pictures
    :param solver: "fused" or "rk4" (`unfolds` steps an input), or "dopri5" (to a tolerance)
    :param gradient: "compiled" or "bptt" (through the steps), "stepwise" or "whole" (an adjoint solve for each input,
        or a single one)
    """

    name: str
    solver: str
    gradient: str

    @property
    def adjoint(self) -> bool:
        """Whether this is the adjoint method, which forgets the steps of the forward pass."""
        return self.gradient in ("stepwise", "whole")


METHODS = (
    Method("fused, compiled", "fused", "compiled"),
    Method("fused", "fused", "bptt"),
    Method("RK4", "rk4", "bptt"),
    Method("dopri5", "dopri5", "bptt"),
    Method("RK4, stepwise", "rk4", "stepwise"),
    Method("dopri5, stepwise", "dopri5", "stepwise"),
    Method("RK4, whole", "rk4", "whole"),
    Method("dopri5, whole", "dopri5", "whole"),
)


@dataclass(frozen=True)
class Run:
    """The result and the cost of one gradient.

    :param state: the last state, (B, N)
    :param gradient: the gradient with respect to the first state and all parameters, as one vector; None if the
        backward solve was given up
    :param evaluations: evaluations of the field for each input, forward and backward
    :param seconds: processor time, forward and backward
    :param depth: autograd's nodes that wait for each other, for each input; for the adjoint method, in its backward
        solve
    """

    state: Tensor
    gradient: Tensor | None
    evaluations: tuple[float, float]
    seconds: tuple[float, float]
    depth: float


def run(method: Method, problem: Problem, tolerance: float = 1e-4) -> Run:
    """Computes the last state and the gradient of the loss by one method.

    :param method: the method
    :param problem: the network and its inputs
    :param tolerance: the relative tolerance of dopri5; the absolute one is a tenth of it
    """
    return _through_scan(method, problem) if method.solver == "fused" else _through_odeint(method, problem, tolerance)


def _through_scan(method: Method, problem: Problem) -> Run:
    cell, first = problem.cell, problem.state.detach().requires_grad_()
    backend = "cpu" if method.gradient == "compiled" else "reference"
    started = time.process_time()
    state = scan(cell, problem.inputs, first, backend=backend)[:, -1]
    loss = problem.loss(state)
    forward = time.process_time() - started
    depth = graph_depth(loss) / problem.inputs.shape[1]
    started = time.process_time()
    gradients = torch.autograd.grad(loss, [first, *cell.parameters()], materialize_grads=True)
    backward = time.process_time() - started
    vector = torch.cat([gradient.flatten() for gradient in gradients])
    return Run(state.detach(), vector, (float(cell.unfolds), float(cell.unfolds)), (forward, backward), depth)


def _through_odeint(method: Method, problem: Problem, tolerance: float) -> Run:
    cell, first = problem.cell, problem.state.detach().requires_grad_()
    steps, parameters = problem.inputs.shape[1], list(cell.parameters())
    constants = cell.constants()
    # Detached, so that the gradient of an effective parameter is not counted twice, there and in its raw parameter.
    effective = [value.values if isinstance(value, Weights) else value for value in constants]
    cut = [value.detach().requires_grad_() for value in effective]
    held = type(constants)(
        *[
            value._replace(values=own) if isinstance(value, Weights) else own
            for value, own in zip(constants, cut, strict=True)
        ]
    )
    parts = [(k, k) for k in range(steps)] if method.gradient == "stepwise" else [(0, steps - 1)]
    fields = [Field(problem, held, *part) for part in parts]
    once = Field(problem, held, 0, 0)(torch.zeros(()), first)
    used = torch.autograd.grad(once.sum(), [*cut, *parameters], allow_unused=True)
    leaves = [leaf for leaf, gradient in zip([*cut, *parameters], used, strict=True) if gradient is not None]
    started, state = time.process_time(), first
    for field in fields:
        state = solve(method, field, state, tolerance, leaves)
    loss = problem.loss(state)
    forward = time.process_time() - started
    made = sum(field.evaluations for field in fields)
    for field in fields:
        field.most = (1 + PATIENCE) * field.evaluations
    depth = float(graph_depth(once) if method.adjoint else graph_depth(loss))
    started = time.process_time()
    vector = None
    try:
        gradients = torch.autograd.grad(loss, [first, *leaves])
        vector = torch.cat([gradients[0].flatten(), _behind(effective, cut, leaves, gradients[1:], parameters)])
    except (GivenUp, AssertionError):  # torchdiffeq asserts that states are finite and steps not too small
        pass
    backward = time.process_time() - started
    again = sum(field.evaluations for field in fields) - made if method.adjoint else made
    depth *= again if method.adjoint else 1
    return Run(state.detach(), vector, (made / steps, again / steps), (forward, backward), depth / steps)


def solve(method: Method, field: Field, state: Tensor, tolerance: float, parameters: Sequence[Tensor] = ()) -> Tensor:
    """Solves for the state at the end of the field's span.

    :param state: the state at the beginning
    :param tolerance: as in `run`
    :param parameters: the tensors whose gradients the adjoint method computes
    """
    times = torch.tensor([field.first, field.last + 1], dtype=torch.float64)
    settings = {"rtol": tolerance, "atol": tolerance / 10, "options": field.options(method.solver)}
    if method.adjoint:
        path = odeint_adjoint(field, state, times, method=method.solver, adjoint_params=tuple(parameters), **settings)
    else:
        path = odeint(field, state, times, method=method.solver, **settings)
    end: Tensor = path[-1]
    return end


def _behind(
    constants: Sequence[Tensor],
    held: Sequence[Tensor],
    leaves: Sequence[Tensor],
    gradients: Sequence[Tensor],
    parameters: Sequence[Tensor],
) -> Tensor:
    """Computes the gradient of all parameters from that of the leaves, the effective parameters `held` included."""
    known = {id(leaf): gradient for leaf, gradient in zip(leaves, gradients, strict=True)}
    pairs = [(made, known[id(cut)]) for made, cut in zip(constants, held, strict=True) if id(cut) in known]
    made, theirs = zip(*[pair for pair in pairs if pair[0].requires_grad], strict=True)
    through = torch.autograd.grad(made, parameters, theirs, materialize_grads=True)
    return torch.cat([(more + known.get(id(own), 0)).flatten() for own, more in zip(parameters, through, strict=True)])


def rebuilt_start(method: Method, problem: Problem, tolerance: float = 1e-4) -> float:
    """Solves to the last state and back, and returns the relative error of the first state.

    A whole adjoint solve uses this first state. The error is infinite if the solve back is given up.
    """
    with torch.no_grad():
        field = Field(problem, problem.cell.constants(), 0, problem.inputs.shape[1] - 1)
        state = solve(method._replace(gradient="bptt"), field, problem.state, tolerance)
        field.most = (1 + PATIENCE) * field.evaluations
        times = torch.tensor([field.last + 1, field.first], dtype=torch.float64)
        settings = {"rtol": tolerance, "atol": tolerance / 10, "options": field.options(method.solver)}
        try:
            return relative_error(odeint(field, state, times, method=method.solver, **settings)[-1], problem.state)
        except (GivenUp, AssertionError):
            return math.inf


def relative_error(found: Tensor | None, true: Tensor) -> float:
    """Returns `|found - true| / |true|` in the Euclidean norm; infinite for None and for NaN."""
    if found is None:
        return math.inf
    error = float((found.double() - true.double()).norm() / true.double().norm())
    return math.inf if math.isnan(error) else error
