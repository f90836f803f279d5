"""Activations: what their values and their derivatives can be over an interval of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from torch import nn

from ncp_control.base.intervals import (
    FUNCTION_ROUNDINGS,
    Array,
    Interval,
    outward,
    sigmoid,
    sigmoid_of,
    tanh,
)
from ncp_control.base.slopes import hull_of, widened

PIECES = 16
FARTHEST = 50.0  # beyond it sigmoids are flat, so no piece ends there
INFINITE = 1e30  # a number that a sigmoid or a tanh takes for infinity
SILU_LOWEST = -1.2784645427610738  # where x sigmoid(x) is least
SILU_STEEPEST = 2.399357280520547  # where its derivative is greatest, and on the other side of zero least


class Curve(NamedTuple):
    """An activation, by the intervals of its values, infinite where its arguments are, and of its derivative."""

    values: Callable[[Interval], Interval]
    slopes: Callable[[Interval], Interval]


def pieces(arguments: Interval, count: int = PIECES) -> Iterator[Interval]:
    """Cuts intervals into pieces, which are shorter near zero, where activations bend."""
    # Equal pieces of an arcsinh are short near zero and long far away.
    low, high = (np.arcsinh(np.clip(end, -FARTHEST, FARTHEST)) for end in arguments)
    edges = [np.sinh(low + (high - low) * (k / count)) for k in range(count + 1)]
    edges = [np.clip(edge, *arguments) for edge in edges]
    edges[0], edges[-1] = arguments.low, arguments.high
    for one, other in pairwise(edges):
        yield Interval(one, other)


def sigmoid_slopes(arguments: Interval) -> Interval:
    """Returns the interval of `s (1 - s)`."""
    return _bell(lambda x: _sigmoid_slope(x), arguments)


def tanh_slopes(arguments: Interval) -> Interval:
    """Returns the interval of `1 - tanh(x)^2`, which is `4 s (1 - s)` at 2 x."""
    return _bell(lambda x: 4 * _sigmoid_slope(2 * x), arguments)


def tanh_line(arguments: Interval) -> tuple[Array, Interval]:
    """Returns the slope l of the line through both ends of a tanh, and the range of `tanh(x) - l x`.

    The difference is the same at both ends, and has its extremes where the tanh is as steep as the line. Where an end
    is infinite, the slope is zero.
    """
    low, high = (np.clip(end, -FARTHEST, FARTHEST) for end in arguments)
    far = ~(np.isfinite(arguments.low) & np.isfinite(arguments.high))
    narrow = high - low < 1e-6  # where the quotient of two tiny differences would be noise
    rise = (np.tanh(high) - np.tanh(low)) / np.where(narrow, 1.0, high - low)
    slope = np.where(far, 0.0, np.clip(np.where(narrow, 1 - np.tanh(low) ** 2, rise), 0.0, 1.0))
    # Where the tanh is as steep as the line; the other point lies on the other side of zero.
    steep = np.arctanh(np.sqrt(np.clip(1 - slope, 0.0, 1 - 1e-16)))
    values = []
    for place in (*arguments, np.clip(-steep, *arguments), np.clip(steep, *arguments)):
        with np.errstate(invalid="ignore"):
            values.append(np.tanh(place) - np.where(slope == 0, 0.0, slope * place))
    found = np.minimum.reduce(values), np.maximum.reduce(values)
    return slope, widened(*found, 1.0 + slope * np.where(far, 0.0, arguments.size))


def _sigmoid_slope(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    found: Array = small / (1 + small) ** 2
    return found


def _bell(function: Callable[[Array], Array], arguments: Interval) -> Interval:
    """Returns the interval of an even function that falls on both sides of zero."""
    nearest = np.clip(0.0, *arguments)
    farthest = np.where(np.abs(arguments.low) > np.abs(arguments.high), *arguments)
    return widened(function(farthest), function(nearest))


def clipped(low: float, high: float) -> Curve:
    """Returns `min(max(x, low), high)`: ReLU with 0 and infinity, hard-tanh with -1 and 1."""
    # in float32 the limits themselves are rounded
    rounded = float(np.float32(low)), float(np.float32(high))

    def values(arguments: Interval) -> Interval:
        found = Interval(
            np.clip(arguments.low, min(low, rounded[0]), min(high, rounded[1])),
            np.clip(arguments.high, max(low, rounded[0]), max(high, rounded[1])),
        )
        return found.where(arguments.is_finite)

    def slopes(arguments: Interval) -> Interval:
        always = (arguments.low > low) & (arguments.high < high)  # nowhere at a limit: the slope is 1 throughout
        ever = (arguments.high > low) & (arguments.low < high)  # somewhere between the limits
        return Interval(always.astype(np.float64), ever.astype(np.float64))

    return Curve(values, slopes)


def elu(alpha: float) -> Curve:
    """Returns `x` above zero and `alpha (exp(x) - 1)` below it, with `alpha >= 0`."""

    def function(x: Array) -> Array:
        return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))

    def slopes(arguments: Interval) -> Interval:
        low, high = (alpha * np.exp(np.minimum(end, 0.0)) for end in arguments)
        below = widened(low, high)
        above = np.ones_like(arguments.low)
        return Interval(
            np.where(arguments.low > 0, above, np.where(arguments.high > 0, np.minimum(below.low, 1.0), below.low)),
            np.where(arguments.high > 0, np.where(arguments.low > 0, above, np.maximum(below.high, 1.0)), below.high),
        )

    # code may compute exp(x) - 1 as written, and so be off by a share of 1
    def values(arguments: Interval) -> Interval:
        low, high = (function(end) for end in arguments)
        widest = np.where(arguments.low < 0, alpha / 2, 0.0)
        return outward(low, high, FUNCTION_ROUNDINGS, widest).where(arguments.is_finite)

    return Curve(values, slopes)


def _silu_values(arguments: Interval) -> Interval:
    """Returns the interval of `x sigmoid(x)`, which falls on the left of its minimum and rises on the right."""
    ends = [_silu(end) for end in arguments]
    lowest = _silu(np.clip(SILU_LOWEST, *arguments))
    found = outward(np.minimum(lowest, np.minimum(*ends)), np.maximum(*ends), FUNCTION_ROUNDINGS)
    return found.where(arguments.is_finite)


def _silu(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(x == -np.inf, 0.0, x * sigmoid_of(x))


def _silu_slopes(arguments: Interval) -> Interval:
    """Returns the interval of `s (1 + x (1 - s))`, whose extremes lie on both sides of zero."""
    inside = [np.clip(place, *arguments) for place in (-SILU_STEEPEST, SILU_STEEPEST)]
    found = hull_of(*(Interval(value, value) for value in map(_silu_slope, [*arguments, *inside])))
    return Interval(found.low - 1e-15, found.high + 1e-15)  # the steepest points are known to as many digits


def _silu_slope(x: Array) -> Array:
    x = np.clip(x, -FARTHEST, FARTHEST)
    s = sigmoid_of(x)
    found: Array = s * (1 + x * (1 - s))
    return found


SIGMOID = Curve(sigmoid, sigmoid_slopes)
TANH = Curve(tanh, tanh_slopes)
RELU = clipped(0.0, np.inf)
SILU = Curve(_silu_values, _silu_slopes)
CURVES = {"sigmoid": SIGMOID, "relu": RELU, "tanh": TANH, "hard_tanh": clipped(-1.0, 1.0)}


def curve_of(module: nn.Module) -> Curve | None:
    """Returns an activation; None for other layers."""
    kind = type(module)
    if kind is nn.Tanh:
        return TANH
    if kind is nn.ReLU:
        return RELU
    if kind is nn.SiLU:
        return SILU
    if isinstance(module, nn.Hardtanh) and kind is nn.Hardtanh:
        return clipped(module.min_val, module.max_val)
    if isinstance(module, nn.ELU) and kind is nn.ELU and module.alpha >= 0:
        return elu(module.alpha)
    return None
