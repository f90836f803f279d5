"""The GPU backend: one kernel launch for the whole sequence, and one launch and a sum for its backward pass."""

from __future__ import annotations

import importlib
import importlib.util
import os

import torch
from torch import Tensor

from ncp_control.ops import autograd
from ncp_control.ops.gpu import launch
from ncp_control.ops.gpu.versions import OLDEST_TRITON, triton_version
from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.readable import not_compiled

# A Triton program keeps all synapses in the registers of one multiprocessor. Near these limits most of them spill.
MOST_NEURONS = 256
MOST_SYNAPSES = 8192


def present() -> tuple[bool, str]:
    """Whether Triton and a CUDA device are there (or Triton's interpreter, for tests on a machine without a GPU)."""
    if importlib.util.find_spec("triton") is None:
        return False, "Triton is not installed: on Linux it comes with torch's CUDA builds"
    version = triton_version()
    if version < OLDEST_TRITON:
        found, wanted = (".".join(map(str, numbers)) for numbers in (version, OLDEST_TRITON))
        return False, f"Triton {found} is too old: the kernels need {wanted}, which comes with torch 2.8"
    if interpreting():
        return True, "Triton's interpreter: correct, but slow"
    if not torch.cuda.is_available():
        return False, "torch finds no CUDA device"
    return True, "Triton kernels"


def available() -> tuple[bool, str]:
    """Whether Triton and a CUDA device are there, and Triton can compile kernels, which is tried once."""
    able, reason = present()
    if able and not interpreting():
        obstacle = importlib.import_module("ncp_control.ops.gpu.toolchain").obstacle()  # imports Triton
        if obstacle is not None:
            return False, obstacle
    return able, reason


# As torch.compiler.assume_constant_result does it, which would import the compiler: 3 seconds for every program.
for function in (present, available):
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def interpreting() -> bool:
    """Whether the kernels run in Triton's interpreter, which takes CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def supports(problem: ScanProblem) -> tuple[bool, str]:
    """Whether the kernels can run `problem`, and why: CUDA tensors, and a compiled cell that fits a multiprocessor."""
    able, reason = present()
    if not able:
        return False, reason
    device = problem.inputs.device
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
        return False, f"the inputs are on {device}, not on a CUDA device"
    obstacle = not_compiled(problem, launch.kinds())
    if obstacle is not None:
        return False, obstacle
    assert problem.program is not None
    indexes = problem.program.indexes
    neurons, synapses = problem.state.shape[1], len(indexes[1]) + len(indexes[3])
    if neurons > MOST_NEURONS:
        return False, f"{neurons} neurons are too many: at most {MOST_NEURONS} fit"
    if synapses > MOST_SYNAPSES:
        return False, f"{synapses} synapses are too many: at most {MOST_SYNAPSES} fit"
    return available()


def run(problem: ScanProblem) -> Tensor:
    """Runs `problem` on the GPU.

    :return: states after every step, (B, T, N)
    """
    return autograd.run(launch, problem)
