"""Calls of the compiled kernels on tensors: shapes are taken as checked, memory is allocated here."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ncp_control.ops.cpu import gated, library
from ncp_control.ops.cpu.structs import STRUCTS, ProblemStruct
from ncp_control.ops.program import Program

KINDS = tuple(STRUCTS)
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
COUNTS = {kind: (len(cell.settings), len(cell.indexes), len(cell.parameters)) for kind, cell in STRUCTS.items()}
NO_GRADIENTS = {kind: (0,) * len(cell.gradients) for kind, cell in STRUCTS.items()}


def forward(
    program: Program, inputs: Tensor, state: Tensor, elapsed: Tensor, reset: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Calls the forward kernel.

    :return: states after every step, (B, T, N)
    """
    loaded = _library()
    inputs, state = inputs.contiguous(), state.contiguous()
    states = inputs.new_empty(inputs.shape[0], inputs.shape[1], state.shape[1])
    if states.numel() == 0:
        return states
    problem, keep = _problem(program, inputs, state, elapsed, reset, mask, states)
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    cell = _cell(program, parameters, ())
    library.call(loaded, f"ncp_{program.kind}_forward_{SUFFIX[inputs.dtype]}", problem, cell)
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
    :return: gradients of inputs, state and elapsed, then of every parameter
    """
    loaded = _library()
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    make = inputs.new_empty if states.numel() else inputs.new_zeros  # the kernel writes every gradient whole
    grads: list[Tensor | None]
    grad_maps = None
    if program.kind in gated.KINDS:
        grad_maps = make(gated.shape_of_maps(program, inputs, state))
        grads = [grad_maps]
    else:
        sizes = [0 if parameter is None else parameter.numel() for parameter in parameters]
        flat = make(sum(sizes))
        grads = [
            part if given is not None and given.dim() == 1 else None if given is None else part.view(given.shape)
            for part, given in zip(flat.split(sizes), parameters, strict=True)
        ]
    grad_inputs = make(inputs.shape) if wanted[0] else None
    grad_elapsed = make(inputs.shape[:2]) if wanted[1] else None
    grad_state = make(state.shape)
    if states.numel():
        grad_states = grad_states.contiguous()
        problem, keep = _problem(program, inputs, state, elapsed, reset, mask, states)
        problem = problem._replace(
            grad_states=_address(grad_states),
            grad_x=_address(grad_inputs),
            grad_state=_address(grad_state),
            grad_elapsed=_address(grad_elapsed),
        )
        cell = _cell(program, parameters, grads)
        library.call(loaded, f"ncp_{program.kind}_backward_{SUFFIX[inputs.dtype]}", problem, cell)
        del keep
    if grad_elapsed is not None and elapsed.dim() == 0:
        grad_elapsed = grad_elapsed.sum()
    if grad_maps is not None:
        grads = gated.parameter_gradients(program, inputs, state, reset, states, grad_maps)
    return [grad_inputs, grad_state, grad_elapsed, *grads]


def threads_for(program: Program, inputs: Tensor) -> int:
    """Torch's number of threads, or one where starting a thread would cost more than it saves."""
    synapses = program.settings.synapses + program.settings.sensory
    enough = 1_000_000 if program.kind in gated.MAPS else 100_000  # a gated cell's synapses are four products
    return torch.get_num_threads() if inputs.shape[0] * inputs.shape[1] * synapses > enough else 1


def _library() -> library.Library:
    """The loaded library; an error that says why where there is none."""
    loaded, reason = library.load()
    if loaded is None:
        raise RuntimeError(reason)
    return loaded


def _problem(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
) -> tuple[ProblemStruct, list[Tensor | None]]:
    """The struct `Problem` without its gradients, and the tensors that must outlive the call."""
    batch, time, features = inputs.shape
    row_stride, time_stride = elapsed.stride() if elapsed.dim() == 2 else (0, 0)
    reset = None if reset is None else reset.contiguous()
    mask = None if mask is None else mask.contiguous()
    problem = ProblemStruct(
        batch=batch,
        time=time,
        inputs=features,
        units=state.shape[1],
        threads=threads_for(program, inputs),
        x=_address(inputs),
        state=_address(state),
        elapsed=_address(elapsed),
        elapsed_row_stride=row_stride,
        elapsed_time_stride=time_stride,
        reset=_address(reset),
        mask=_address(mask),
        states=_address(states),
    )
    return problem, [reset, mask]


def _cell(program: Program, parameters: Sequence[Tensor | None], grads: Sequence[Tensor | None]) -> list[int]:
    """The values of the cell's struct; without gradients, their fields are null.

    The fields are counted, because an exported program can come from another version.
    """
    found, taken = (len(program.settings), len(program.indexes), len(parameters)), COUNTS[program.kind]
    if found != taken:
        counts = "{} settings, {} index tensors and {} parameters"
        raise ValueError(
            f"this program of kind {program.kind!r} has {counts.format(*found)}, but the kernel takes "
            f"{counts.format(*taken)}: export it again with this version of ncp-control"
        )
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in (*program.indexes, *parameters, *grads)]
    return [*program.settings, *addresses] if grads else [*program.settings, *addresses, *NO_GRADIENTS[program.kind]]


def _address(tensor: Tensor | None) -> int:
    """Where the tensor's data lie; null for None."""
    return 0 if tensor is None else tensor.data_ptr()
