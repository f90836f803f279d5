"""What the parts of `controller.c` are made of, and the small functions that they share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ncp_control.neurons.program_form import first_of_target

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


# A microcontroller computes the library's expf in three times as many cycles. The coefficients are those with the least
# greatest relative error, 1.1e-7, among the polynomials 1 + f + c2 f^2 + ... + c5 f^5. 86 is below the logarithm of the
# greatest float, and the sum of the bits multiplies by 2^n. n comes from the bits, because rounded.number - 1.5 * 2^23
# would be x * 1.44 where a compiler may change the order of sums.
EXPONENTIAL = """\
#if !defined(CONTROLLER_DOUBLE) && (UINTPTR_MAX <= 0xFFFFFFFFU || defined(CONTROLLER_OWN_EXP))
/* exp(x) = 2^n exp(f) with n whole and |f| <= log(2) / 2, for small processors. Its relative error is at most
   2.5e-7 + 7e-8 |x|, which in a sigmoid is rounding. Below -86 it is 0, and above 86 exp(86). Adding 1.5 * 2^23
   rounds to n. */
static inline float exponential(float x) {
    union { float number; uint32_t bits; } rounded, power;
    float f;
    if (x > 86.0f) x = 86.0f;
    else if (x < -86.0f) return 0.0f;
    rounded.number = x * 1.44269504f + 12582912.0f;
    f = x - (float)(int32_t)(rounded.bits - 0x4B400000U) * 0.693147182f;
    power.number = 0.0418903316f + f * 0.00831250133f;
    power.number = 1.0f + f * (1.0f + f * (0.499992303f + f * (0.166671154f + f * power.number)));
    power.bits += rounded.bits << 23;
    return power.number;
}
#else
static inline controller_real exponential(controller_real x) {
    return EXP(x);
}
#endif
"""
DECAYED = """\
#if !defined(CONTROLLER_DOUBLE) && (UINTPTR_MAX <= 0xFFFFFFFFU || defined(CONTROLLER_OWN_EXP))
/* 1 - exp(-x), x >= 0, for small processors: up to 1/2 by its series, because a subtraction loses the digits of x. */
static inline float decayed(float x) {
    float sum;
    if (x > 0.5f) return 1.0f - exponential(-x);
    sum = 1.0f - x * (1.0f / 6.0f) * (1.0f - x * (1.0f / 7.0f) * (1.0f - x * (1.0f / 8.0f)));
    sum = 1.0f - x * (1.0f / 3.0f) * (1.0f - x * (1.0f / 4.0f) * (1.0f - x * (1.0f / 5.0f) * sum));
    return x * (1.0f - x * (1.0f / 2.0f) * sum);
}
#else
static inline controller_real decayed(controller_real x) {
    return -EXPM1(-x);
}
#endif
"""
SIGMOID = """\
/* 1 / (1 + exp(-x)), which is right for an infinite exp, too. */
static controller_real sigmoid(controller_real x) {
    return REAL(1.0) / (REAL(1.0) + exponential(-x));
}
"""
SQUASHED = """\
/* From [-1, 1] to [low, high], which rounding does not leave. */
static controller_real squashed(controller_real y, controller_real low, controller_real high) {
    const controller_real x = low + REAL(0.5) * (y + REAL(1.0)) * (high - low);
    return x < low ? low : x > high ? high : x;
}
"""
DOT = """\
static controller_real dot(const controller_real *one, const controller_real *other, int count) {
    controller_real sum = REAL(0.0);
    for (int i = 0; i < count; i++) sum += one[i] * other[i];
    return sum;
}
"""
ALL_FINITE = """\
static int all_finite(const controller_real *numbers, int count) {
    for (int i = 0; i < count; i++) {
        if (!isfinite(numbers[i])) return 0;
    }
    return 1;
}
"""
CLIPPED = """\
static controller_real clipped(controller_real x, controller_real low, controller_real high) {
    return x < low ? low : x > high ? high : x;
}
"""
DENSE = """\
/* out = weight in + bias; the weight has a row for each number of out. */
static void dense(const controller_real *weight, const controller_real *bias, int rows, int columns,
                  const controller_real *in, controller_real *out) {
    for (int i = 0; i < rows; i++) out[i] = bias[i] + dot(weight + i * columns, in, columns);
}
"""
# In an order in which each comes after those that it calls.
SHARED = {
    "exponential": EXPONENTIAL,
    "decayed": DECAYED,
    "sigmoid": SIGMOID,
    "all_finite": ALL_FINITE,
    "clipped": CLIPPED,
    "squashed": SQUASHED,
    "dot": DOT,
    "dense": DENSE,
}


@dataclass(frozen=True)
class CellPiece:
    """A cell: `advance(x, s[, elapsed])` moves the state s one step on, and `read_out(s, y)` gives its outputs.

    :param text: its arrays and functions
    :param uses_elapsed: whether `advance` has the argument `elapsed`
    :param outputs: the first motor neuron's place in the state, if the outputs stand there as they are and the cell
        has no `read_out`; otherwise None
    """

    text: str
    uses_elapsed: bool = True
    outputs: int | None = None


def shared_functions(text: str) -> str:
    """Returns the definitions of all shared functions that a text calls, and of those that they call."""
    needed: list[str] = []
    # Backwards, so that a function that a shared one calls is still to come.
    for name, definition in reversed(SHARED.items()):
        if re.search(rf"\b{name}\(", text):
            needed.insert(0, definition)
            text += definition
    return "\n".join(needed)


def filled(template: str, **values: Any) -> str:
    """Returns a template with `@NAME@` replaced by values, by name in lower case; C is full of braces."""
    for name, value in values.items():
        template = template.replace(f"@{name.upper()}@", str(value))
    return template


def edge_arrays(name: str, source: Any, target: Any, units: int) -> str:
    """Returns the arrays NAME_start and NAME_source of synapses sorted by target.

    Synapse k leads from NAME_source[k] into the neuron j with `NAME_start[j] <= k < NAME_start[j + 1]`.

    :param name: what the synapses are called
    :param source: the source of every synapse, (E,), at least one
    :param target: its target, (E,)
    :param units: number of neurons N
    """
    starts = first_of_target(np.asarray(target), units)
    return index_array(f"{name}_start", starts) + index_array(f"{name}_source", source)


# Divided by the step's length, so that an elapsed time of almost 0 makes `per_step` infinite and lets v stay.
FUSED = """\
static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], next[@UNITS@], per_step, conductance;
    if (!(elapsed > REAL(0.0))) return;
    per_step = REAL(@UNFOLDS@.0) / elapsed;
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        for (int j = 0; j < @UNITS@; j++) {
            const controller_real moved = pull(sensed, v, j, &conductance);
            next[j] = v[j] + moved / (@CAPACITANCE@per_step + conductance);
        }
        for (int j = 0; j < @UNITS@; j++) v[j] = next[j];
    }
}
"""
EULER = """\
static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], next[@UNITS@], conductance;
    const controller_real step = elapsed / REAL(@UNFOLDS@.0);
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        for (int j = 0; j < @UNITS@; j++) next[j] = v[j] + step * pull(sensed, v, j, &conductance)@OVER@;
        for (int j = 0; j < @UNITS@; j++) v[j] = next[j];
    }
}
"""
RK4 = """\
static void slope(const controller_real *sensed, const controller_real *v, controller_real *change) {
    controller_real conductance;
    for (int j = 0; j < @UNITS@; j++) change[j] = pull(sensed, v, j, &conductance)@OVER@;
}

static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], change[@UNITS@], total[@UNITS@], trial[@UNITS@];
    const controller_real step = elapsed / REAL(@UNFOLDS@.0), half = REAL(0.5) * step;
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        slope(sensed, v, change);
        for (int j = 0; j < @UNITS@; j++) total[j] = change[j];
        for (int stage = 1; stage < 4; stage++) {
            const controller_real ahead = stage < 3 ? half : step, weight = stage < 3 ? REAL(2.0) : REAL(1.0);
            for (int j = 0; j < @UNITS@; j++) trial[j] = v[j] + ahead * change[j];
            slope(sensed, trial, change);
            for (int j = 0; j < @UNITS@; j++) total[j] += weight * change[j];
        }
        for (int j = 0; j < @UNITS@; j++) v[j] += step / REAL(6.0) * total[j];
    }
}
"""
SOLVERS = {"fused": FUSED, "euler": EULER, "rk4": RK4}


def check_form(cell: str, solver: str) -> None:
    """Refuses a solver that chooses its steps while it runs."""
    if solver not in SOLVERS:
        raise ValueError(
            f"an agent whose {cell} is solved by {solver!r} has no C form: train one with the solver "
            + " or ".join(repr(name) for name in SOLVERS)
        )


def solver(name: str, units: int, sensed: int, unfolds: int, capacitance: str = "") -> str:
    """Returns the function `advance` of an ODE cell.

    :param name: a key of `SOLVERS`
    :param units: the number of neurons
    :param sensed: how many numbers `sense` writes
    :param unfolds: the solver steps in one step
    :param capacitance: the name of an array of capacitances; without one they are 1
    """
    return filled(
        SOLVERS[name],
        units=units,
        sensed=sensed,
        unfolds=unfolds,
        capacitance=f"{capacitance}[j] * " if capacitance else "",
        over=f" / {capacitance}[j]" if capacitance else "",
    )
