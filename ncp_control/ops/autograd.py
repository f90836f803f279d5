"""The scan of every compiled backend: one autograd function over the backend's forward and backward kernels."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.program import Kernels, Program
from ncp_control.ops.readable import odd_gradient, watched

REFERENCE = 'run the scan with backend="reference"'


def run(kernels: Kernels, problem: ScanProblem) -> Tensor:
    """Runs `problem` on compiled kernels, and records it for autograd where a gradient is wanted.

    :return: states after every step, (B, T, N)
    """
    program = problem.program
    assert program is not None
    if torch.compiler.is_compiling():
        from ncp_control.ops.operator import run_as_operator

        return run_as_operator(program, problem)
    inputs, state, elapsed = problem.inputs, problem.state, problem.elapsed
    if not isinstance(elapsed, Tensor):
        elapsed = _scalar(elapsed, inputs.dtype, inputs.device)
    tensors = (inputs, state, elapsed, *program.parameters)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        states: Tensor = CompiledScan.apply(  # type: ignore[no-untyped-call]
            kernels, program, problem.reset, problem.mask, *tensors
        )
        return states
    return kernels.forward(program, inputs, state, elapsed, problem.reset, problem.mask)


@functools.lru_cache(maxsize=64)
def _scalar(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A scalar tensor, made once for each value; nothing writes to it."""
    with torch.inference_mode(False):  # one made in inference mode could not be saved for a backward pass later
        return torch.full((), value, dtype=dtype, device=device)


class CompiledScan(torch.autograd.Function):
    """Joins a backend's forward kernel and its hand-written backward kernel for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        program: Program,
        reset: Tensor | None,
        mask: Tensor | None,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        *parameters: Tensor | None,
    ) -> Tensor:
        """Computes the states and keeps what the backward pass reads."""
        inputs, state = inputs.contiguous(), state.contiguous()
        states = kernels.forward(program, inputs, state, elapsed, reset, mask)
        ctx.kernels, ctx.program = kernels, program._replace(parameters=())
        ctx.save_for_backward(inputs, state, elapsed, reset, mask, states, *parameters)
        return states

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients of inputs, state, elapsed and parameters."""
        obstacle = watched() or odd_gradient(grad_states)
        if obstacle is not None:
            raise RuntimeError(f"the backward pass of a compiled scan cannot run here: {obstacle}; {REFERENCE}")
        inputs, state, elapsed, reset, mask, states, *parameters = ctx.saved_tensors
        program = ctx.program._replace(parameters=tuple(parameters))
        wanted = (ctx.needs_input_grad[4], ctx.needs_input_grad[6])
        with torch.no_grad():
            given = (program, inputs, state, elapsed, reset, mask, states, grad_states.resolve_neg())
            grads = ctx.kernels.backward(*given, wanted)
        if torch.is_grad_enabled():  # the gradients may be differentiated again: create_graph=True
            sources = (inputs, state, elapsed, *parameters, grad_states)
            grads = FirstDerivative.apply(len(sources), *sources, *grads)  # type: ignore[no-untyped-call]
        return None, None, None, None, *grads


class FirstDerivative(torch.autograd.Function):
    """Passes gradients on as they are, and refuses to be differentiated.

    Without it they would count as constants in a second derivative, which would be wrong without a word.
    """

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        """Returns copies of the gradients, which follow the `count` tensors that they depend on."""
        return tuple(grad if grad is None else grad.clone() for grad in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Refuses."""
        raise RuntimeError(f"compiled scans have no second derivative; {REFERENCE}")
