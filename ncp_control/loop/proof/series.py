"""Taylor series of intervals, with derivatives, for boxes side by side.

A number here is an array of intervals (B, 1 + V): for each of B boxes a value, and its derivatives by V variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ncp_control.base.intervals import Interval, between, divide, exactly, joined, point
from ncp_control.base.slopes import minus, plus, times

TRIGONOMETRIC = 1e-15  # by which a sine of the C library may be wrong, with room
VALUE, SLOPES = (..., slice(1)), (..., slice(1, None))

Slope = Callable[[tuple[Any, ...], tuple[Any, ...], Any], tuple[Any, ...]]


class PowerSeries:
    """The first coefficients of a Taylor series in time.

    :param parts: numbers (B, 1 + V), one for each power of the time
    """

    def __init__(self, parts: list[Interval]) -> None:
        self.parts = parts

    def __add__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries([shifted(self.parts[0], other), *self.parts[1:]])
        return PowerSeries([plus(*pair) for pair in zip(self.parts, other.parts, strict=True)])

    __radd__ = __add__

    def __mul__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries([times(part, point(np.array(other))) for part in self.parts])
        return PowerSeries([convolved(self.parts, other.parts, k) for k in range(len(self.parts))])

    __rmul__ = __mul__

    def __neg__(self) -> PowerSeries:
        return PowerSeries([Interval(-part.high, -part.low) for part in self.parts])

    def __sub__(self, other: PowerSeries | float) -> PowerSeries:
        return self + (-other)

    def __rsub__(self, other: float) -> PowerSeries:
        return -self + other

    def __truediv__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries([quotient(part, point(np.array(float(other)))) for part in self.parts])
        found: list[Interval] = []
        for k, part in enumerate(self.parts):
            left = part if k == 0 else minus(part, convolved([*found, part], other.parts, k, last=k))
            found.append(divided(left, other.parts[0]))
        return PowerSeries(found)


class Maths:
    """The functions of a body's equations, for series."""

    @staticmethod
    def sin(argument: PowerSeries) -> PowerSeries:
        """Returns the sine."""
        return PowerSeries(circling(argument.parts)[0])

    @staticmethod
    def cos(argument: PowerSeries) -> PowerSeries:
        """Returns the cosine."""
        return PowerSeries(circling(argument.parts)[1])


def solution(slope: Slope, state: Sequence[Interval], action: Sequence[Interval], order: int) -> list[list[Interval]]:
    """Returns the Taylor coefficients of a solution, from the power 0 to `order`, each a list of the state's numbers.

    :param slope: the derivatives of the state by time
    :param state: the state at time 0, numbers (B, 1 + V)
    :param action: the action, which is held
    :param order: the highest power
    """
    found = [list(state)]
    nothing = between(0.0, 0.0, state[0].shape)
    for k in range(order):
        rows = [PowerSeries([power[i] for power in found]) for i in range(len(state))]
        held = [PowerSeries([number, *[nothing] * k]) for number in action]
        moved = slope(tuple(rows), tuple(held), Maths)
        found.append([times(row.parts[k], point(np.array(1 / (k + 1)))) for row in moved])
    return found


def variables(values: Interval) -> list[Interval]:
    """Returns values (B, V) as numbers with the derivatives by themselves."""
    rows, count = values.shape
    slopes = point(np.broadcast_to(np.eye(count), (rows, count, count)))
    return [joined(column(values, k), slopes.at((slice(None), k)), axis=1) for k in range(count)]


def column(values: Interval, k: int) -> Interval:
    """Returns one of several values (B, V) as a number without derivatives, (B, 1)."""
    return values.at((slice(None), slice(k, k + 1)))


def shifted(number: Interval, by: float) -> Interval:
    """Returns a number to which a constant is added."""
    return joined(plus(number.at(VALUE), point(np.array(float(by)))), number.at(SLOPES), axis=1)


def product(one: Interval, other: Interval) -> Interval:
    """Returns the product of two numbers."""
    whole = times(one.at(VALUE), other)
    if one.shape[-1] == 1:
        return whole
    slopes = plus(whole.at(SLOPES), times(other.at(VALUE), one.at(SLOPES)))
    return joined(whole.at(VALUE), slopes, axis=1)


def convolved(one: Sequence[Interval], other: Sequence[Interval], k: int, last: int | None = None) -> Interval:
    """Returns the coefficient k of a product, with those of the first factor before `last` alone."""
    return plus(*(product(one[j], other[k - j]) for j in range(k + 1 if last is None else last)))


def quotient(number: Interval, by: Interval) -> Interval:
    """Returns a number divided by a positive one without derivatives."""
    with exactly():
        return divide(number, by)


def divided(number: Interval, by: Interval) -> Interval:
    """Returns the quotient of two numbers: `d(a / b) = (da - (a / b) db) / b`."""
    divisor = by.at(VALUE)
    value = quotient(number.at(VALUE), divisor)
    slopes = quotient(minus(number.at(SLOPES), times(value, by.at(SLOPES))), divisor)
    return joined(value, slopes, axis=1)


def circling(parts: Sequence[Interval]) -> tuple[list[Interval], list[Interval]]:
    """Returns the series of a sine and a cosine, which are each other's derivatives."""
    angle = parts[0].at(VALUE)
    sine, cosine = sine_of(angle, 0.0), sine_of(angle, 0.5 * np.pi)
    turned = parts[0].at(SLOPES)
    sines = [joined(sine, times(cosine, turned), axis=1)]
    falling = times(Interval(-sine.high, -sine.low), turned)
    cosines = [joined(cosine, falling, axis=1)]
    for k in range(1, len(parts)):
        scaled = [times(parts[j], point(np.array(j / k))) for j in range(1, k + 1)]
        up = plus(*(product(scaled[j - 1], cosines[k - j]) for j in range(1, k + 1)))
        down = plus(*(product(scaled[j - 1], sines[k - j]) for j in range(1, k + 1)))
        sines.append(up)
        cosines.append(Interval(-down.high, -down.low))
    return sines, cosines


def sine_of(angle: Interval, ahead: float) -> Interval:
    """Returns the range of `sin(angle + ahead)`, where `ahead` is 0 or a quarter of a turn."""
    function = np.sin if ahead == 0 else np.cos
    ends = [function(end) for end in angle]
    turns = [(end + ahead) / (2 * np.pi) for end in angle]
    # A little beyond both ends, so that rounding hides no peak.
    room = 1e-12 * (1 + np.abs(turns[0]) + np.abs(turns[1]))
    has_top, has_bottom = (np.floor(turns[1] + room - at) >= np.ceil(turns[0] - room - at) for at in (0.25, 0.75))
    low = np.where(has_bottom, -1.0, np.minimum(*ends) - TRIGONOMETRIC)
    high = np.where(has_top, 1.0, np.maximum(*ends) + TRIGONOMETRIC)
    return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0))
