"""Calls of the compiled kernels on tensors: shapes are taken as checked, memory is made here."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ncp_control.ops.cpu import gated as cpu_gated
from ncp_control.ops.cpu import library as cpu_library
from ncp_control.ops.program import Program

KINDS = ("ltc", "affine", "affine_rk4", "cfc", "lstm", "gru", "ctgru")
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def forward(
    program: Program, inputs: Tensor, state: Tensor, elapsed: Tensor, reset: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Calls the forward kernel."""
    library = _library()
    inputs, state = inputs.contiguous(), state.contiguous()
    states = torch.empty(inputs.shape[0], inputs.shape[1], state.shape[1], dtype=inputs.dtype)
    if states.numel() == 0:
        return states
    problem, keep = _problem(program, inputs, state, elapsed, reset, mask, states)
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    arguments = _arguments(program, parameters)
    cpu_library.call(library, f"ncp_{program.kind}_forward_{SUFFIX[inputs.dtype]}", problem, arguments)
    del keep
    return states


def backward(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    grad_states: Tensor,
    wanted: tuple[bool, bool],
) -> list[Tensor | None]:
    """Calls the backward kernel.

    :param wanted: whether the gradients of inputs and of elapsed are wanted
    :return: gradients of inputs, state, elapsed, then of every parameter
    """
    library = _library()
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    make = torch.empty if states.numel() else torch.zeros  # the kernel writes every gradient whole
    grads: list[Tensor | None]
    grad_maps = None
    if program.kind in cpu_gated.KINDS:
        grad_maps = make(cpu_gated.shape_of_maps(program, inputs, state), dtype=inputs.dtype)
        grads = [grad_maps]
    else:
        sizes = [0 if parameter is None else parameter.numel() for parameter in parameters]
        flat = make(sum(sizes), dtype=inputs.dtype)
        grads = [
            part if given is not None and given.dim() == 1 else None if given is None else part.view(given.shape)
            for part, given in zip(flat.split(sizes), parameters, strict=True)
        ]
    grad_inputs = make(inputs.shape, dtype=inputs.dtype) if wanted[0] else None
    grad_elapsed = make(inputs.shape[:2], dtype=inputs.dtype) if wanted[1] else None
    grad_state = make(state.shape, dtype=inputs.dtype)
    if states.numel():
        grad_states = grad_states.contiguous()
        problem, keep = _problem(program, inputs, state, elapsed, reset, mask, states)
        problem += [_address(grad_states), _address(grad_inputs), _address(grad_state), _address(grad_elapsed)]
        arguments = _arguments(program, parameters) + [_address(grad) for grad in grads]
        cpu_library.call(library, f"ncp_{program.kind}_backward_{SUFFIX[inputs.dtype]}", problem, arguments)
        del keep
    if grad_elapsed is not None and elapsed.dim() == 0:
        grad_elapsed = grad_elapsed.sum()
    if grad_maps is not None:
        grads = cpu_gated.parameter_gradients(program, inputs, state, reset, states, grad_maps)
    return [grad_inputs, grad_state, grad_elapsed, *grads]


def _library() -> cpu_library.Library:
    library, reason = cpu_library.load()
    if library is None:
        raise RuntimeError(reason)
    return library


def _problem(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
) -> tuple[list[int], list[Tensor | None]]:
    """The struct `Problem` of kernels/scan.h up to its gradients, and the tensors that must outlive the call."""
    batch, time, features = inputs.shape
    strides = elapsed.stride() if elapsed.dim() == 2 else (0, 0)
    reset = None if reset is None else reset.contiguous()
    mask = None if mask is None else mask.contiguous()
    fields = [batch, time, features, state.shape[1], _threads(program, inputs), _address(inputs), _address(state)]
    fields += [_address(elapsed), *strides, _address(reset), _address(mask), _address(states)]
    return fields, [reset, mask]


def _arguments(program: Program, parameters: Sequence[Tensor | None]) -> list[int]:
    """The cell's struct: settings, indexes, parameters."""
    indexes = [index.data_ptr() for index in program.indexes]
    return [*program.settings, *indexes, *[0 if given is None else given.data_ptr() for given in parameters]]


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _threads(program: Program, inputs: Tensor) -> int:
    """Torch's number of threads, or one where starting a thread would cost more than it saves."""
    synapses = program.settings[0] + program.settings[1]
    enough = 1_000_000 if program.kind in cpu_gated.MAPS else 100_000  # a gated cell's synapses are four products
    return torch.get_num_threads() if inputs.shape[0] * inputs.shape[1] * synapses > enough else 1
