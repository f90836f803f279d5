"""What the parts of `controller.c` are made of, and the small functions that they share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
