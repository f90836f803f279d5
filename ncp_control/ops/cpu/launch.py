"""Calls of the compiled kernels on tensors: shapes are taken as checked, memory is allocated here."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from ncp_control.base.imports import KERNELS
from ncp_control.ops.cpu import library
from ncp_control.ops.kinds import kind_of
from ncp_control.ops.program import Program

KINDS = tuple(KERNELS)
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}

NO_MOTOR = (0,) * 8  # the fields `motor` to `d_output_shift` of the problem's struct, if no outputs are wanted


class Addresses(NamedTuple):
    """What both kernels read of a program.

    :param struct: the cell's struct without its gradients, which are null
    :param motor: the fields `motor` to `output_shift` of the problem's struct
    :param sizes: how many numbers the motor map's scale and shift have, then each parameter
    :param copies: the tensors that did not lie in memory as kernels read them, as copies that do
    """

    struct: array[int]
    motor: tuple[int, int, int, int]
    sizes: list[int]
    copies: list[Tensor | None]


def forward(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    outputs: Tensor | None = None,
) -> Tensor:
    """Calls the forward kernel.

    :param outputs: (B, T, O), to be filled; None for none
    :return: states after every step, (B, T, N)
    """
    kernel = _kernel(program.kind, "forward", inputs.dtype)
    inputs, state, reset, mask = inputs.contiguous(), state.contiguous(), _contiguous(reset), _contiguous(mask)
    batch, time, _ = inputs.shape
    states = inputs.new_empty(batch, time, state.shape[1])
    if batch * time:
        prepared = prepare(program)
        fields = _fields(program, inputs, state, elapsed, reset, mask, states)
        motor = NO_MOTOR if outputs is None else (*prepared.motor, outputs.data_ptr(), 0, 0, 0)
        kernel(array("q", (*fields, 0, 0, 0, 0, *motor)), prepared.struct)  # "q": every field has eight bytes
    return states


def backward(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    grad_states: Tensor | None,
    wanted: tuple[bool, bool],
    grad_outputs: Tensor | None = None,
) -> list[Tensor | None]:
    """Calls the backward kernel.

    :param grad_states: the gradient of the states; it may be None if that of the outputs is given
    :param wanted: whether the gradients of inputs and of elapsed are wanted
    :param grad_outputs: the gradient of the outputs; where it is None, those of scale and shift are
    :return: gradients of inputs, state, elapsed, the motor map's scale and shift, then of every parameter
    """
    kernel = _kernel(program.kind, "backward", inputs.dtype)
    prepared = prepare(program)
    make = inputs.new_empty if states.numel() else inputs.new_zeros  # the kernel writes every gradient whole
    grad_inputs = make(inputs.shape) if wanted[0] else None
    grad_elapsed = make(inputs.shape[:2]) if wanted[1] else None
    grad_state = make(state.shape)
    maps = kind_of(program.kind).maps
    grad_maps = None if maps is None else make(maps.shape(program, inputs, state))
    flat = make(sum(prepared.sizes))  # the gradients that the kernel writes, one after the other
    if states.numel():
        grad_states, grad_outputs = _contiguous(grad_states), _contiguous(grad_outputs)
        reset, mask = _contiguous(reset), _contiguous(mask)
        places = _places(flat, prepared.sizes)
        motor = NO_MOTOR if grad_outputs is None else (*prepared.motor, 0, grad_outputs.data_ptr(), *places[:2])
        fields = _fields(program, inputs, state, elapsed, reset, mask, states)
        gradients = map(_address, (grad_states, grad_inputs, grad_state, grad_elapsed))
        struct = prepared.struct[:]  # the prepared one has null for gradients, and other calls share it
        written = places[2:] if grad_maps is None else [grad_maps.data_ptr()]
        struct[-len(written) :] = array("q", written)
        kernel(array("q", (*fields, *gradients, *motor)), struct)
    if grad_elapsed is not None and elapsed.dim() == 0:
        grad_elapsed = grad_elapsed.sum()
    parts = torch.split_with_sizes(flat, prepared.sizes)
    if maps is None or grad_maps is None:
        pairs = zip(parts[2:], program.parameters, strict=True)
        grads = [None if of is None else part if of.dim() == 1 else part.view(of.shape) for part, of in pairs]
    else:
        grads = maps.gradients(inputs, state, reset, states, grad_maps)
    of_motor = [None if grad_outputs is None or not part.numel() else part for part in parts[:2]]
    return [grad_inputs, grad_state, grad_elapsed, *of_motor, *grads]


def prepare(program: Program) -> Addresses:
    """Makes the struct of a program, or takes the one that was made for the same tensors.

    The fields are counted, because an exported program can come from another version.
    """
    kept = program.kept
    if kept is not None and "cpu" in kept:
        addresses: Addresses = kept["cpu"]
        return addresses
    kind = kind_of(program.kind)
    taken = (len(program.settings), len(program.indexes), len(program.parameters))
    wanted = (len(kind.struct.settings), len(kind.struct.indexes), len(kind.struct.parameters))
    if taken != wanted:
        counts = "{} settings, {} index tensors and {} parameters"
        raise ValueError(
            f"this program of kind {program.kind!r} has {counts.format(*taken)}, but the kernel takes "
            f"{counts.format(*wanted)}: export it again with this version of ncp-control"
        )
    start, size, scale, shift = program.motor or (0, 0, None, None)
    originals = (scale, shift, *program.parameters, *program.indexes)
    tensors = [_contiguous(tensor) for tensor in originals]
    copies = [tensor for tensor, original in zip(tensors, originals, strict=True) if tensor is not original]
    of_scale, of_shift, *places = map(_address, tensors)
    indexes = places[len(program.parameters) :]
    parameters = places[: len(program.parameters)]
    struct = array("q", [*program.settings, *indexes, *parameters, *[0] * len(kind.struct.gradients)])
    written = (scale, shift, *(program.parameters if kind.maps is None else ()))
    sizes = [0 if tensor is None else tensor.numel() for tensor in written]
    prepared = Addresses(struct, (start, size, of_scale, of_shift), sizes, copies)
    if kept is not None and not copies:  # a copy would not follow when the parameter changes
        kept["cpu"] = prepared
    return prepared


def threads_for(program: Program, inputs: Tensor) -> int:
    """Torch's number of threads, or one where starting a thread would cost more than it saves."""
    settings, (batch, time, _) = program.settings, inputs.shape
    alone = kind_of(program.kind).alone
    return torch.get_num_threads() if batch * time * (settings.synapses + settings.sensory) > alone else 1


def _kernel(kind: str, direction: str, dtype: torch.dtype) -> library.Kernel:
    """A kernel of the loaded library; an error that says why where there is none."""
    loaded, reason = library.load()
    if loaded is None:
        raise RuntimeError(reason)
    return library.kernel(loaded, f"ncp_{kind}_{direction}_{SUFFIX[dtype]}")


def _fields(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
) -> tuple[int, ...]:
    """The fields of `ProblemStruct` from `batch` to `states`, in order."""
    batch, time, units = states.shape
    return (
        batch,
        time,
        inputs.shape[2],
        units,
        threads_for(program, inputs),
        inputs.data_ptr(),
        state.data_ptr(),
        elapsed.data_ptr(),
        *(elapsed.stride() if elapsed.dim() == 2 else (0, 0)),
        _address(reset),
        _address(mask),
        states.data_ptr(),
    )


def _places(flat: Tensor, sizes: Sequence[int]) -> list[int]:
    """Where each of the parts of `flat` begins; null for an empty one."""
    ends, first, step = accumulate(sizes), flat.data_ptr(), flat.element_size()
    return [first + step * (end - size) if size else 0 for size, end in zip(sizes, ends, strict=True)]


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    """A tensor as kernels read it."""
    return None if tensor is None else tensor.contiguous()


def _address(tensor: Tensor | None) -> int:
    """Where the tensor's data lie; null for None."""
    return 0 if tensor is None else tensor.data_ptr()
