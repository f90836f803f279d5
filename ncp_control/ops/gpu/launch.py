"""Launches of the Triton kernels on tensors: shapes are taken as checked, memory is allocated here."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
from torch import Tensor

from ncp_control.base.imports import KERNELS
from ncp_control.ops.gpu.tables import power_of_two, tables_of
from ncp_control.ops.kinds import kind_of
from ncp_control.ops.program import Program

# The registers of 32 numbers that a multiprocessor has, and those that each thread of a forward kernel may take. With
# more, a kernel spills less, and with fewer, more programs run at once. This number and those of the kinds were the
# fastest of 96, 128, 168 and 255 on an H100.
REGISTERS = 2048
FORWARD_REGISTERS = 128


def forward(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    outputs: Tensor | None = None,
) -> Tensor:
    """Launches the forward kernel, with one Triton program for each row.

    :param outputs: (B, T, O), to be filled; None for none
    :return: states after every step, (B, T, N)
    """
    inputs, state = inputs.contiguous(), state.contiguous()
    states = inputs.new_empty(inputs.shape[0], inputs.shape[1], state.shape[1])
    if states.numel():
        kernels = kernels_of(program.kind)
        arguments, options = _arguments(kernels, program, inputs, state, elapsed, reset, mask, states)
        with _on(inputs.device):
            kernels.forward[(inputs.shape[0],)](*arguments, **options)
    if outputs is not None and program.motor is not None:
        outputs.copy_(program.motor.of(states))
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
    """Launches the backward kernel, and sums the parameters' gradients over its Triton programs.

    :param grad_states: the gradient of the states; it may be None if that of the outputs is given
    :param wanted: whether the gradients of inputs and of elapsed are wanted
    :param grad_outputs: the gradient of the outputs; where it is None, those of scale and shift are
    :return: gradients of inputs, state, elapsed, the motor map's scale and shift, then of every parameter
    """
    of_motor: list[Tensor | None] = [None, None]
    if grad_outputs is not None and program.motor is not None:
        grad_states, *of_motor = program.motor.back(states, grad_states, grad_outputs)
    assert grad_states is not None
    batch = inputs.shape[0]
    sizes = [0 if parameter is None else parameter.numel() for parameter in program.parameters]
    grad_inputs = torch.empty_like(inputs) if wanted[0] else None
    grad_elapsed = inputs.new_empty(inputs.shape[:2]) if wanted[1] else None
    grad_state = torch.zeros_like(state)
    flat = inputs.new_zeros(sum(sizes))
    if states.numel():
        kernels = kernels_of(program.kind)
        arguments, options = _arguments(kernels, program, inputs, state, elapsed, reset, mask, states, backwards=True)
        warps = options["num_warps"]
        # As many programs as run at once: each adds its rows up, and fewer shares are left to be summed.
        programs = min(batch, backward_programs(inputs.device, warps * registers(program.kind, warps, backwards=True)))
        shares = inputs.new_empty(programs, len(flat))
        scratch = inputs.new_empty(programs * kernels.scratch_vectors(program.settings) * options["NEURONS"])
        grads = (grad_states.contiguous(), grad_inputs, grad_state, grad_elapsed, shares, scratch)
        with _on(inputs.device):
            kernels.backward[(programs,)](*arguments, *grads, batch, len(flat), **options)
        flat = shares.sum(0)
    if grad_elapsed is not None and elapsed.dim() == 0:
        grad_elapsed = grad_elapsed.sum()
    parts = zip(flat.split(sizes), program.parameters, strict=True)
    of_parameters = [None if parameter is None else part.view(parameter.shape) for part, parameter in parts]
    return [grad_inputs, grad_state, grad_elapsed, *of_motor, *of_parameters]


def kinds() -> tuple[str, ...]:
    """Returns the kinds of programs that have Triton kernels."""
    return tuple(kind for kind in KERNELS if kind_of(kind).gpu is not None)


kinds._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as in `backend.py`


def kernels_of(kind: str) -> Any:
    """Imports the module of a kind (and Triton): it has `PARAMETERS`, `forward`, `backward` and `scratch_vectors`."""
    return importlib.import_module(f"{KERNELS[kind]}.triton")


def backward_programs(device: torch.device, registers: int) -> int:
    """How many programs of the backward pass run at once, each with so many registers of 32 numbers."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
    return processors * max(1, REGISTERS // registers)


def registers(kind: str, warps: int, backwards: bool) -> int:
    """How many registers a thread of a kernel may have at most."""
    gpu = kind_of(kind).gpu
    assert gpu is not None
    return min(gpu.registers if backwards else FORWARD_REGISTERS, REGISTERS // warps)


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes `device` the current one, on which Triton launches."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _arguments(
    kernels: Any,
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    backwards: bool = False,
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments that both kernels take first, and their compile-time settings."""
    _, time, features = inputs.shape
    units = state.shape[1]
    tables = tables_of(program, features, units)
    warps = tables.backward_warps if backwards else tables.forward_warps
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    strides = elapsed.stride() if elapsed.dim() == 2 else (0, 0)
    flags = [None if flag is None else flag.contiguous().view(torch.uint8) for flag in (reset, mask)]
    arguments = [kernels.PARAMETERS(*parameters), tables.numbers, inputs, state, elapsed, *strides, *flags, states]
    options = {
        "SETTINGS": (*program.settings, *tables.settings),
        "TABLES": tables.shapes,
        "NEURONS": power_of_two(units),  # the only sizes that Triton's arrays have
        "FEATURES": power_of_two(features),
        "num_warps": warps,
        "enable_fp_fusion": True,
    }
    if torch.version.hip is None:  # an option of NVIDIA's compiler
        options["maxnreg"] = registers(program.kind, warps, backwards)
    return [*arguments, time, units, features], options
