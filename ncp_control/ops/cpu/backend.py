"""The CPU backend: one call into compiled code for the whole sequence, and one for its backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.ops import autograd
from ncp_control.ops.cpu import launch, library
from ncp_control.ops.problem import ScanCell, ScanProblem
from ncp_control.ops.readable import not_compiled, odd, settled, watched


def available() -> tuple[bool, str]:
    """Whether this machine has a compiled library that it can run, and why."""
    loaded, reason = library.load()
    return loaded is not None, reason


# As torch.compiler.assume_constant_result does it, which would import the compiler: 3 seconds for every program.
available._dynamo_marked_constant = True  # type: ignore[attr-defined]


def supports(problem: ScanProblem) -> tuple[bool, str]:
    """Whether compiled code can run `problem`, and why: CPU tensors in float32 or float64, and a compiled cell."""
    obstacle = would_not_run(problem)
    return available() if obstacle is None else (False, obstacle)


def would_not_run(problem: ScanProblem) -> str | None:
    """Why compiled code could not run `problem` even with its library; None if it could."""
    device = problem.inputs.device
    if device.type != "cpu":
        return f"the inputs are on {device}, not on the CPU"
    return not_compiled(problem, launch.KINDS)


def run(problem: ScanProblem) -> Tensor:
    """Runs `problem` on the CPU.

    :return: states after every step, (B, T, N)
    """
    return autograd.run(launch, problem)


def run_directly(
    cell: ScanCell, inputs: Tensor, state: Tensor | None, elapsed: float, reset: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Runs a scan that needs neither a gradient nor a conversion; None for any other, which `run` may take.

    A single step takes a sixth less time this way. It asks what `make_problem`, `supports` and `autograd.run` ask, but
    does not say what is wrong.

    :return: as `scan_with_outputs`
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or watched() or library.load()[0] is None:
        return None
    dtype = cell.dtype
    if not (elapsed >= 0 and _is_plain(inputs, dtype) and inputs.dim() == 3 and inputs.shape[2] == cell.inputs):
        return None
    batch, time, _ = inputs.shape
    if reset is not None and not (_is_plain(reset, torch.bool) and reset.shape == (batch, time)):
        return None
    if state is None:
        state = cell.initial_state(batch, dtype=dtype, device=inputs.device)
    elif not (_is_plain(state, dtype) and state.shape == (batch, cell.state_size)):
        return None
    cell.refresh()
    program = cell.program()
    if program is None or program.kind not in launch.KINDS:
        return None
    program = settled(program, inputs, state)
    if program is None:
        return None
    motor = program.motor
    outputs = None if motor is None else inputs.new_empty(batch, time, motor.size)
    span = autograd.scalar(elapsed, dtype, inputs.device)
    states = launch.forward(program, inputs, state, span, reset, None, outputs)
    return cell.motor(states) if outputs is None else outputs, states


def _is_plain(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether a tensor is dense, of this type, on the CPU and as it is in memory, and is not empty."""
    return (
        isinstance(tensor, Tensor)
        and tensor.is_cpu
        and tensor.dtype is dtype
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not odd(tensor)
        and tensor.numel() > 0
    )
