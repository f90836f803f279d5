"""The compiled scan as a torch operator, so that `torch.compile` and `torch.export` see one node.

Eager code does not come through here: an autograd function over the same kernels starts faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ncp_control.ops.cpu import launch as cpu_kernels
from ncp_control.ops.program import Program


def _program(
    kind: str, settings: Sequence[int], indexes: Sequence[Tensor], present: Sequence[bool], parameters: Sequence[Tensor]
) -> Program:
    given = iter(parameters)
    return Program(kind, tuple(settings), tuple(indexes), tuple(next(given) if there else None for there in present))


@torch.library.custom_op("ncp_control::scan", mutates_args=(), device_types="cpu")
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
    """States after every step, (B, T, N).

    The arguments are those of a `Program` and a `ScanProblem`; `present` says which of the program's parameters are
    not None, and `parameters` lists those.
    """
    program = _program(kind, settings, indexes, present, parameters)
    return cpu_kernels.forward(program, inputs, state, elapsed, reset, mask)


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


@torch.library.custom_op("ncp_control::scan_backward", mutates_args=(), device_types="cpu")
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
    """Gradients of inputs, state, elapsed and every present parameter."""
    program = _program(kind, settings, indexes, present, parameters)
    wanted = (True, True)
    grads = cpu_kernels.backward(program, inputs, state, elapsed, reset, mask, states, grad_states, wanted)
    # an operator's results may not share memory, and the kernels write all parameters' gradients into one buffer
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
    kind, settings, indexes, present, parameters, *tensors = inputs
    ctx.kind, ctx.settings, ctx.present, ctx.counts = kind, settings, present, (len(indexes), len(parameters))
    ctx.save_for_backward(*indexes, *parameters, *tensors, output)


def _backward(ctx: Any, grad_states: Tensor) -> tuple[Any, ...]:
    indexes, parameters = ctx.counts
    saved = list(ctx.saved_tensors)
    kept, given, rest = saved[:indexes], saved[indexes : indexes + parameters], saved[indexes + parameters :]
    grads = scan_backward(ctx.kind, ctx.settings, kept, ctx.present, given, *rest, grad_states)
    return (None, None, [None] * indexes, None, list(grads[3:]), *grads[:3], None, None)


scan.register_autograd(_backward, setup_context=_keep)
