"""The CPU backend: one call into compiled code for the whole sequence, and one for its backward pass."""

from __future__ import annotations

from torch import Tensor

from ncp_control.ops import autograd
from ncp_control.ops.cpu import launch, library
from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.readable import not_compiled


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
