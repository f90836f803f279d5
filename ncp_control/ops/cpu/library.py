"""Finds the compiled kernels that fit this machine, and calls them."""

from __future__ import annotations

import ctypes
import functools
import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# From the fastest to the one that runs anywhere; setup.py builds one library for each.
LEVELS = ("avx512", "avx2", "portable")
FOLDER = Path(__file__).parent
CHOICE = "NCP_CONTROL_CPU_LEVEL"


class Library(NamedTuple):
    """A loaded library and the level it was built for."""

    level: str
    handle: ctypes.CDLL


def path_of(level: str) -> Path:
    """Where the library of a level lies once it is built."""
    return FOLDER / f"_kernels_{level}.so"


@functools.cache
def load() -> tuple[Library | None, str]:
    """The best library this machine can run, or None, and why.

    The environment variable NCP_CONTROL_CPU_LEVEL (avx512, avx2 or portable) chooses one by name.
    """
    built = [level for level in LEVELS if path_of(level).exists()]
    if not built:
        return None, "the compiled kernels are missing: install a C++ compiler (g++) and install the package again"
    if "portable" not in built:
        return None, "the portable kernels are missing: install the package again"
    supported = _supported()
    wanted = os.environ.get(CHOICE)
    if wanted is not None:
        if wanted not in LEVELS:
            return None, f"{CHOICE} is {wanted!r}: choose one of {', '.join(LEVELS)}"
        if wanted not in built or wanted not in supported:
            return None, f"{CHOICE} is {wanted}, which was not built or this machine cannot run"
        level = wanted
    else:
        level = next(level for level in LEVELS if level in built and level in supported)
    try:
        return Library(level, ctypes.CDLL(str(path_of(level)))), f"compiled kernels, {level}"
    except OSError as error:
        return None, f"the compiled kernels do not load ({error}): install the package again"


def _supported() -> tuple[str, ...]:
    """The levels that this machine's processor can run."""
    try:
        best = ctypes.CDLL(str(path_of("portable"))).ncp_best_level()
    except OSError:
        return ("portable",)
    return LEVELS[2 - best :]


@functools.cache
def function(library: Library, name: str) -> Callable[[int, int], int]:
    """A kernel by its name; it takes the addresses of its two structs."""
    found = getattr(library.handle, name)
    found.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    found.restype = ctypes.c_int
    kernel: Callable[[int, int], int] = found
    return kernel


def call(library: Library, name: str, problem: list[int], arguments: list[int]) -> None:
    """Calls a kernel with its two structs, given as lists of eight-byte values."""
    structs = array("q", problem + arguments)
    address = structs.buffer_info()[0]
    if function(library, name)(address, address + 8 * len(problem)):
        raise MemoryError(f"not enough memory for the scan ({name})")
