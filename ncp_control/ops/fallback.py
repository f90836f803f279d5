"""The warning where backend="auto" falls back to the reference, although compiled code was to be expected."""

from __future__ import annotations

import functools
import sys
import warnings
from types import FrameType

import torch

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
        stacklevel=_first_frame_outside(),
    )


def _first_frame_outside() -> int:
    """The `stacklevel` with which `_warn_once` names the caller's line outside this package and torch."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("ncp_control", "torch"):
        frame, level = frame.f_back, level + 1
    return level
