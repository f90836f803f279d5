"""The scan on a CPU: one call into compiled code for the whole sequence, one for its backward pass."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.cpu import launch as cpu_kernels
from ncp_control.ops.cpu import library as cpu_library
from ncp_control.ops.problem import ScanProblem, mismatch
from ncp_control.ops.program import Program


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def available() -> tuple[bool, str]:
    """Whether a library for this machine was built."""
    library, reason = cpu_library.load()
    return library is not None, reason


def supports(problem: ScanProblem) -> tuple[bool, str]:
    """CPU tensors in float32 or float64, and a cell with a compiled form."""
    able, reason = available()
    if not able:
        return False, reason
    if problem.inputs.device.type != "cpu":
        return False, f"the inputs are on {problem.inputs.device}, not on the CPU"
    if problem.inputs.dtype not in cpu_kernels.SUFFIX:
        return False, f"compiled for float32 and float64, not for {problem.inputs.dtype}"
    program = problem.program
    if program is None or program.kind not in cpu_kernels.KINDS:
        return False, f"{type(problem.cell).__name__} with these settings has no compiled form"
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return False, "a trace records torch's own operations, which a compiled scan has none of"
    wrong = mismatch(problem)
    return (True, reason) if wrong is None else (False, wrong)


def run(problem: ScanProblem) -> Tensor:
    """The states after every step, (B, T, N)."""
    program = problem.program
    assert program is not None
    inputs, state, elapsed = problem.inputs, problem.state, problem.elapsed
    if torch.compiler.is_compiling():
        return _operator(program, problem)
    if not isinstance(elapsed, Tensor):
        elapsed = _number(elapsed, inputs.dtype)
    tensors = (inputs, state, elapsed, *program.parameters)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        states: Tensor = _Scan.apply(  # type: ignore[no-untyped-call]
            program, problem.reset, problem.mask, *tensors
        )
        return states
    return cpu_kernels.forward(program, inputs, state, elapsed, problem.reset, problem.mask)


@functools.lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype) -> Tensor:
    """A scalar tensor, made once; nothing writes to it."""
    with torch.inference_mode(False):  # one made in inference mode could not be saved for a backward pass later
        return torch.full((), value, dtype=dtype)


def _operator(program: Program, problem: ScanProblem) -> Tensor:
    """The same scan as a torch operator, for compilers."""
    from ncp_control.ops.operator import scan

    present = [parameter is not None for parameter in program.parameters]
    parameters = [parameter for parameter in program.parameters if parameter is not None]
    lists = (list(program.settings), list(program.indexes), present, parameters)
    elapsed = torch.as_tensor(problem.elapsed, dtype=problem.inputs.dtype)
    states: Tensor = scan(program.kind, *lists, problem.inputs, problem.state, elapsed, problem.reset, problem.mask)
    return states


class _Scan(torch.autograd.Function):
    """The kernel's forward and hand-written backward, joined for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        program: Program,
        reset: Tensor | None,
        mask: Tensor | None,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        *parameters: Tensor | None,
    ) -> Tensor:
        inputs, state = inputs.contiguous(), state.contiguous()
        states = cpu_kernels.forward(program, inputs, state, elapsed, reset, mask)
        ctx.kernel = program._replace(parameters=())
        ctx.save_for_backward(inputs, state, elapsed, reset, mask, states, *parameters)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        inputs, state, elapsed, reset, mask, states, *parameters = ctx.saved_tensors
        program = ctx.kernel._replace(parameters=tuple(parameters))
        wanted = (ctx.needs_input_grad[3], ctx.needs_input_grad[5])
        grads = cpu_kernels.backward(program, inputs, state, elapsed, reset, mask, states, grad_states, wanted)
        return None, None, None, *grads
