"""The scan of every compiled backend: one autograd function over the backend's forward and backward kernels."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.program import Kernels, Program


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
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients of inputs, state, elapsed and parameters."""
        inputs, state, elapsed, reset, mask, states, *parameters = ctx.saved_tensors
        program = ctx.program._replace(parameters=tuple(parameters))
        wanted = (ctx.needs_input_grad[4], ctx.needs_input_grad[6])
        grads = ctx.kernels.backward(program, inputs, state, elapsed, reset, mask, states, grad_states, wanted)
        return None, None, None, None, *grads
