"""Finds the compiled kernels that fit this machine, checks them, and calls them."""

from __future__ import annotations

import ctypes
import functools
import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ncp_control.ops.cpu.structs import struct_sizes

# From the fastest to the one that runs anywhere; setup.py builds one library for each.
LEVELS = ("avx512", "avx2", "portable")
VECTOR_BYTES = {"avx512": 64, "avx2": 32, "portable": 16}
FOLDER = Path(__file__).parent
CHOICE = "NCP_CONTROL_CPU_LEVEL"
BUILD = "install a C++ compiler such as g++, then run `make venv` in a checkout or `pip install .` in the sources"


Kernel: TypeAlias = "Callable[[array[int], array[int]], None]"


class Library(NamedTuple):
    """A loaded library and the level it was built for."""

    level: str
    handle: ctypes.CDLL


def path_of(level: str) -> Path:
    """Where the build puts the library of a level."""
    return FOLDER / f"_kernels_{level}.so"


@functools.cache
def load() -> tuple[Library | None, str]:
    """Loads the best library that this machine can run.

    The environment variable NCP_CONTROL_CPU_LEVEL (avx512, avx2 or portable) chooses one by name.

    :return: the library, or None if there is none to use; and why
    """
    built = [level for level in LEVELS if path_of(level).exists()]
    if not built:
        return None, f"the compiled kernels are missing: {BUILD}"
    if "portable" not in built:  # it is asked what the processor can run
        return None, f"the portable kernels are missing: {BUILD}"
    runnable = [level for level in supported_levels() if level in built]
    wanted = os.environ.get(CHOICE)
    if wanted is not None and wanted not in LEVELS:
        return None, f"{CHOICE} is {wanted!r}: choose one of {', '.join(LEVELS)}, or unset it"
    if wanted is not None and wanted not in runnable:
        why = "this processor cannot run it" if wanted in built else "that level was not built"
        return None, f"{CHOICE} is {wanted}, but {why}: choose one of {', '.join(runnable)}, or unset it"
    return load_level(wanted or runnable[0])


def load_level(level: str) -> tuple[Library | None, str]:
    """Loads the library of a level that was built and that this machine can run.

    Several levels can be loaded side by side: each is a library of its own.

    :return: as `load`
    """
    try:
        handle = ctypes.CDLL(str(path_of(level)))
    except OSError as error:
        return None, f"the compiled kernels do not load ({error}): {BUILD}"
    different = structs_that_differ(handle)
    if different:
        return None, f"the compiled kernels are of another version (struct of {', '.join(different)}): {BUILD}"
    return Library(level, handle), f"compiled kernels, {level}"


def vector_bytes() -> int:
    """Returns the width of a vector in the library that `load` has chosen; of the narrowest without one."""
    library = load()[0]
    return VECTOR_BYTES["portable" if library is None else library.level]


def supported_levels() -> tuple[str, ...]:
    """The levels that this machine's processor can run, from the fastest."""
    try:
        best = ctypes.CDLL(str(path_of("portable"))).ncp_best_level()
    except OSError:
        return ("portable",)
    return LEVELS[2 - best :]  # the library counts from 0, the portable level


def structs_that_differ(handle: ctypes.CDLL) -> list[str]:
    """The structs that have another size in a library than Python fills; calling its kernels would crash."""
    return [name for name, size in struct_sizes().items() if _struct_bytes(handle, name) != size]


def _struct_bytes(handle: ctypes.CDLL, name: str) -> int | None:
    """The size of a struct as the library says; None from a library that does not say it."""
    try:
        return int(getattr(handle, f"ncp_{name}_struct_bytes")())
    except AttributeError:
        return None


@functools.cache
def kernel(library: Library, name: str) -> Kernel:
    """A kernel by its name; it takes the problem's struct and the cell's."""
    function = getattr(library.handle, name)
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    function.restype = ctypes.c_int

    def call(problem: array[int], cell: array[int]) -> None:
        if function(problem.buffer_info()[0], cell.buffer_info()[0]):
            raise MemoryError(f"not enough memory for the scan ({name})")

    return call
