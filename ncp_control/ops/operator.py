"""The compiled scan as a torch operator, so that `torch.compile` and `torch.export` see one node.

The operator serves CPU and CUDA tensors. Eager code does not use it: the autograd function over the same kernels
(`ops/autograd.py`) starts faster. Exported programs name it, so that its name and its arguments stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.cpu import launch as cpu_launch
from ncp_control.ops.gpu import launch as gpu_launch
from ncp_control.ops.kinds import kind_of
from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.program import Kernels, Program
from ncp_control.ops.readable import unreadable

# By the device of the inputs.
KERNELS: dict[str, Kernels] = {"cpu": cpu_launch, "cuda": gpu_launch}


def run_as_operator(program: Program, problem: ScanProblem) -> Tensor:
    """Runs `problem` by the operator.

    :return: states after every step, (B, T, N)
    """
    present = [parameter is not None for parameter in program.parameters]
    parameters = [parameter for parameter in program.parameters if parameter is not None]
    lists = (list(program.settings), list(program.indexes), present, parameters)
    inputs = problem.inputs
    elapsed = torch.as_tensor(problem.elapsed, dtype=inputs.dtype, device=inputs.device)
    states: Tensor = scan(program.kind, *lists, inputs, problem.state, elapsed, problem.reset, problem.mask)
    return states


def _program(
    kind: str, settings: Sequence[int], indexes: Sequence[Tensor], present: Sequence[bool], parameters: Sequence[Tensor]
) -> Program:
    """The program that the operator's first arguments describe."""
    given = iter(parameters)
    every = tuple(next(given) if there else None for there in present)
    return Program(kind, kind_of(kind).settings(*settings), tuple(indexes), every)


@torch.library.custom_op("ncp_control::scan", mutates_args=(), device_types=tuple(KERNELS))
def scan(
    kind: str,
    settings: Sequence[int],
    indexes: Sequence[Tensor],
    present: Sequence[bool],
    parameters: Sequence[Tensor],
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Returns the states after every step, (B, T, N).

    The arguments are the fields of a `Program` and of a `ScanProblem`. An operator cannot take a list that holds None,
    so `present` says which of the program's parameters exist, and `parameters` holds these alone.
    """
    program = _program(kind, settings, indexes, present, parameters)
    obstacle = unreadable(program, inputs, state, elapsed, reset, mask)
    if obstacle is not None:
        raise RuntimeError(f"ncp_control::scan cannot run: {obstacle}")
    return KERNELS[inputs.device.type].forward(program, inputs, state, elapsed, reset, mask)


@scan.register_fake
def _(
    kind: str,
    settings: Sequence[int],
    indexes: Sequence[Tensor],
    present: Sequence[bool],
    parameters: Sequence[Tensor],
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    return inputs.new_empty(inputs.shape[0], inputs.shape[1], state.shape[1])


@torch.library.custom_op("ncp_control::scan_backward", mutates_args=(), device_types=tuple(KERNELS))
def scan_backward(
    kind: str,
    settings: Sequence[int],
    indexes: Sequence[Tensor],
    present: Sequence[bool],
    parameters: Sequence[Tensor],
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    grad_states: Tensor,
) -> list[Tensor]:
    """Returns the gradients of inputs, state, elapsed and every present parameter."""
    # What a compiler kept may lie in memory in any order, and the kernels' backward passes read it row by row.
    inputs, state, states, grad_states = (each.contiguous() for each in (inputs, state, states, grad_states))
    program = _program(kind, settings, indexes, present, parameters)
    backward, wanted = KERNELS[inputs.device.type].backward, (True, True)
    grads = backward(program, inputs, state, elapsed, reset, mask, states, grad_states, wanted)
    # an operator's results may not share memory, and the kernels write the gradients of all parameters into one buffer
    return [grad.clone() for grad in grads if grad is not None]


@scan_backward.register_fake
def _(
    kind: str,
    settings: Sequence[int],
    indexes: Sequence[Tensor],
    present: Sequence[bool],
    parameters: Sequence[Tensor],
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    grad_states: Tensor,
) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in (inputs, state, elapsed, *parameters)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keeps for the backward pass what it reads."""
    kind, settings, indexes, present, parameters, *tensors = inputs
    ctx.kind, ctx.settings, ctx.present, ctx.counts = kind, settings, present, (len(indexes), len(parameters))
    ctx.save_for_backward(*indexes, *parameters, *tensors, output)


def _backward(ctx: Any, grad_states: Tensor) -> tuple[Any, ...]:
    """The gradient of each of the operator's arguments."""
    indexes, parameters = ctx.counts
    saved = list(ctx.saved_tensors)
    kept, given, rest = saved[:indexes], saved[indexes : indexes + parameters], saved[indexes + parameters :]
    grads = scan_backward(ctx.kind, ctx.settings, kept, ctx.present, given, *rest, grad_states)
    return (None, None, [None] * indexes, None, list(grads[3:]), *grads[:3], None, None)


scan.register_autograd(_backward, setup_context=_keep)
