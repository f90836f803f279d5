# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Whether Triton can compile kernels here: it needs a C compiler and Python's headers, and looks for them only then."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl


@triton.jit
def store_zero(place):
    """Stores a number: the smallest kernel."""
    tl.store(place, 0.0)


@functools.cache
def obstacle() -> str | None:
    """Why Triton cannot make a kernel ready for a launch here; None if it can. It compiles one to find out."""
    try:
        store_zero.warmup(torch.float32, grid=(1,)).run  # noqa: B018 (reading it makes the launcher)
    except Exception as error:  # whatever the compilers, the assembler and the driver raise
        line = (str(error).splitlines() or [type(error).__name__])[0]
        return f"Triton cannot compile kernels here: {line} It needs a C compiler, such as gcc, and Python's headers"
    return None
