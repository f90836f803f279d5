"""Numbers and arrays as C."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
WIDTH = 118  # characters of a line


def values_of(values: Tensor | ArrayLike) -> NDArray[np.float64]:
    """Returns a tensor's values as float64."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)


def literal(value: float) -> str:
    """Returns a number as C: REAL(...) makes a float or a double of it, and the digits suffice for both.

    A number that a float would round to zero is written as zero, because compilers warn about it.
    """
    if np.isinf(value):
        return "-INFINITE" if value < 0 else "INFINITE"
    if abs(value) < SMALLEST:
        return "REAL(0.0)"
    return f"REAL({float(value)!r})"


def array(name: str, values: Tensor | ArrayLike, *, endless: bool = False) -> str:
    """Returns the definition of a constant array of one or two dimensions, which must not be empty.

    :param name: the array's name
    :param values: (n,), or (n, m) with one row in each line
    :param endless: whether infinite values are in order
    """
    numbers = values_of(values)
    unusable = np.isnan(numbers) | (np.abs(numbers) > LARGEST) & ~(np.isinf(numbers) & endless)
    if unusable.any():
        found = numbers[unusable][0]
        raise ValueError(f"the agent has no C form, because a number of `{name}` is {found}, which no float holds")
    sizes = "".join(f"[{size}]" for size in numbers.shape)
    if numbers.ndim == 1:
        body = _wrapped(literal(value) for value in numbers)
    else:
        body = ",\n".join("    {" + ", ".join(literal(value) for value in row) + "}" for row in numbers)
    return f"static const controller_real {name}{sizes} = {{\n{body}\n}};\n"


def index_array(name: str, values: ArrayLike) -> str:
    """Returns the definition of a constant array of whole numbers, of the smallest type that holds them all."""
    numbers = np.asarray(values, dtype=np.int64)
    largest = int(numbers.max())
    kind = "uint8_t" if largest < 2**8 else "uint16_t" if largest < 2**16 else "int32_t"
    return f"static const {kind} {name}[{len(numbers)}] = {{\n{_wrapped(str(int(value)) for value in numbers)}\n}};\n"


def _wrapped(words: Iterable[Any]) -> str:
    """Returns words with commas between them, in lines of at most `WIDTH` characters."""
    lines = ["   "]
    for word in words:
        if len(lines[-1]) + len(word) + 2 > WIDTH and lines[-1].strip():
            lines.append("   ")
        lines[-1] += f" {word},"
    return "\n".join(lines).removesuffix(",")
