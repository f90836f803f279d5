"""The scan of every compiled backend: one autograd function over the backend's forward and backward kernels."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.motor import MotorMap
from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.program import Kernels, Program
from ncp_control.ops.readable import odd_gradient, settled, unreadable, watched

REFERENCE = 'run the scan with backend="reference"'
MOST_SCALARS = 64  # elapsed times that are kept as tensors; few programs use more than one


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
        elapsed = scalar(elapsed, inputs.dtype, inputs.device)
    motor = program.motor if problem.with_outputs else None
    if torch.is_grad_enabled():
        scale, shift = (None, None) if motor is None else (motor.scale, motor.shift)
        tensors = (inputs, state, elapsed, scale, shift, *program.parameters)
        if any(tensor is not None and tensor.requires_grad for tensor in tensors):
            states: Tensor
            states, problem.outputs = CompiledScan.apply(  # type: ignore[no-untyped-call]
                kernels, program, motor, problem.reset, problem.mask, *tensors
            )
            return states
    if motor is not None:
        problem.outputs = inputs.new_empty(inputs.shape[0], inputs.shape[1], motor.size)
    return kernels.forward(program, inputs, state, elapsed, problem.reset, problem.mask, problem.outputs)


_SCALARS: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}


def scalar(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns a number as a tensor, which is made once and must not be written to."""
    place = (value, dtype, device)
    # What is made while a CUDA graph is captured lies in the graph's memory, and what is kept here may go before it.
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    tensor = None if capturing else _SCALARS.get(place)
    if tensor is None:
        with torch.inference_mode(False):  # one made in inference mode could not be saved for a backward pass later
            tensor = torch.full((), value, dtype=dtype, device=device)
        if not capturing:
            if len(_SCALARS) == MOST_SCALARS:
                _SCALARS.clear()
            _SCALARS[place] = tensor
    return tensor


class CompiledScan(torch.autograd.Function):
    """Joins a backend's forward kernel and its hand-written backward kernel for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        program: Program,
        motor: MotorMap | None,
        reset: Tensor | None,
        mask: Tensor | None,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        scale: Tensor | None,
        shift: Tensor | None,
        *parameters: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Computes the states and, with `motor`, the outputs, and keeps what the backward pass reads."""
        inputs, state = inputs.contiguous(), state.contiguous()
        outputs = None if motor is None else inputs.new_empty(inputs.shape[0], inputs.shape[1], motor.size)
        states = kernels.forward(program, inputs, state, elapsed, reset, mask, outputs)
        # Parameters are saved with the tensors below, where autograd notices if one was changed in place.
        ctx.kernels, ctx.program = kernels, program[:3]
        ctx.place = (0, 0) if motor is None else motor[:2]
        ctx.save_for_backward(inputs, state, elapsed, reset, mask, states, scale, shift, *parameters)
        ctx.set_materialize_grads(False)  # no gradient stays None, rather than a tensor of zeros
        return states, outputs

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor | None, grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        """Computes the gradients of inputs, state, elapsed, scale, shift and parameters."""
        if grad_states is None and grad_outputs is None:
            return (None,) * len(ctx.needs_input_grad)
        obstacle = watched() or odd_gradient(grad_states) or odd_gradient(grad_outputs)
        inputs, state, elapsed, reset, mask, states, scale, shift, *parameters = ctx.saved_tensors
        start, size = ctx.place
        motor = MotorMap(start, size, scale, shift) if size else None
        kind, settings, indexes = ctx.program
        given = Program(kind, settings, indexes, tuple(parameters), motor)
        program = None if obstacle else settled(given, inputs, state)
        if program is None:
            obstacle = obstacle or unreadable(given, inputs, state, elapsed, reset, mask)
            raise RuntimeError(f"the backward pass of a compiled scan cannot run here: {obstacle}; {REFERENCE}")
        wanted = (ctx.needs_input_grad[5], ctx.needs_input_grad[7])
        again = torch.is_grad_enabled()  # the gradients may be differentiated again: create_graph=True
        with torch.no_grad() if again else nullcontext():
            # Kernels read the numbers in memory, which may stand there with the other sign.
            plain = [grad if grad is None else grad.resolve_neg() for grad in (grad_states, grad_outputs)]
            tensors = (inputs, state, elapsed, reset, mask, states)
            grads = ctx.kernels.backward(program, *tensors, plain[0], wanted, plain[1])
        if again:
            sources = (inputs, state, elapsed, scale, shift, *parameters, grad_states, grad_outputs)
            grads = FirstDerivative.apply(len(sources), *sources, *grads)  # type: ignore[no-untyped-call]
        return None, None, None, None, None, *grads


class FirstDerivative(torch.autograd.Function):
    """Passes gradients on as they are, and refuses to be differentiated.

    Otherwise they would count as constants in a second derivative, which would be wrong and say nothing.
    """

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        """Returns copies of the gradients, which follow the `count` tensors that they depend on."""
        return tuple(grad if grad is None else grad.clone() for grad in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Refuses."""
        raise RuntimeError(f"compiled scans have no second derivative; {REFERENCE}")
