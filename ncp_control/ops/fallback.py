"""The warning where backend="auto" falls back to the reference, although compiled code was to be expected."""

from __future__ import annotations

import functools
import warnings

import torch

from ncp_control.base.callers import level_outside
from ncp_control.ops.cpu import backend as cpu
from ncp_control.ops.gpu import backend as gpu
from ncp_control.ops.problem import ScanProblem
from ncp_control.ops.readable import watched


class SlowScanWarning(UserWarning):
    """A scan runs on the slow reference, because the compiled kernels are missing or do not fit this machine."""


def warn_of_reference(problem: ScanProblem) -> None:
    """Warns, once in a process, if `problem` runs on the reference only because a compiled library is missing.

    On a GPU it warns whatever the reason is, because the reference launches thousands of small kernels there. It says
    nothing in traces and exports, nor of a cell without a compiled form on the CPU, which has no other way to run.
    """
    if torch.compiler.is_compiling() or watched() is not None:
        return
    if problem.inputs.device.type == "cuda":
        _warn_once(gpu.supports(problem)[1])
        return
    if cpu.would_not_run(problem) is not None:
        return
    able, reason = cpu.available()
    if not able:
        _warn_once(reason)


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"scans run on the reference in plain torch, often 5 to 80 times slower than compiled code: {reason}",
        SlowScanWarning,
        stacklevel=level_outside(),
    )
