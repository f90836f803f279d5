"""Which Triton is installed, told without importing it."""

from __future__ import annotations

import functools
import importlib.metadata

OLDEST_TRITON = (3, 4)


@functools.cache
def triton_version() -> tuple[int, ...]:
    """The first two numbers of Triton's version; a build that does not name it counts as new enough."""
    try:
        return tuple(int(part) for part in importlib.metadata.version("triton").split(".")[:2])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return OLDEST_TRITON
