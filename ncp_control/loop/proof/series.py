"""Taylor series of intervals, with first and second derivatives, for boxes side by side.

A number here is an array of intervals (B, 1 + V + V * V): for each of B boxes a value, its derivatives by V variables,
and the derivatives of these. With V = 0 it is a value alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from ncp_control.base.intervals import Interval, between, divide, exactly, joined, point
from ncp_control.base.slopes import minus, plus, times

TRIGONOMETRIC = 1e-15  # by which a sine of the C library may be wrong, with room
VALUE, BEHIND = (..., slice(1)), (..., slice(1, None))

Slope = Callable[[tuple[Any, ...], tuple[Any, ...], Any], tuple[Any, ...]]


class PowerSeries:
    """A Taylor series in time, whose coefficients are computed when they are asked for, each once.

    :param rule: returns a coefficient, a number; those of lower powers have been computed before
    """

    def __init__(self, rule: Callable[[int], Interval]) -> None:
        self._rule = rule
        self._known: list[Interval] = []

    def __getitem__(self, power: int) -> Interval:
        while len(self._known) <= power:
            self._known.append(self._rule(len(self._known)))
        return self._known[power]

    def __add__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries(lambda k: self[k] if k else shifted(self[0], other))
        return PowerSeries(lambda k: plus(self[k], other[k]))

    __radd__ = __add__

    def __mul__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries(lambda k: times(self[k], point(np.array(other))))
        return PowerSeries(lambda k: plus(*(product(self[j], other[k - j]) for j in range(k + 1))))

    __rmul__ = __mul__

    def __neg__(self) -> PowerSeries:
        return PowerSeries(lambda k: -self[k])

    def __sub__(self, other: PowerSeries | float) -> PowerSeries:
        return self + (-other)

    def __rsub__(self, other: float) -> PowerSeries:
        return -self + other

    def __truediv__(self, other: PowerSeries | float) -> PowerSeries:
        if not isinstance(other, PowerSeries):
            return PowerSeries(lambda k: quotient(self[k], point(np.array(float(other)))))

        def rule(k: int) -> Interval:
            known = [product(found[j], other[k - j]) for j in range(k)]
            return divided(minus(self[k], plus(*known)) if known else self[0], other[0])

        found = PowerSeries(rule)
        return found

    @cached_property
    def circling(self) -> tuple[PowerSeries, PowerSeries]:
        """The sine and the cosine of this series, which are computed together."""
        return circling(self)


class Maths:
    """The functions of a body's equations, for series."""

    @staticmethod
    def sin(argument: PowerSeries) -> PowerSeries:
        """Returns the sine."""
        return argument.circling[0]

    @staticmethod
    def cos(argument: PowerSeries) -> PowerSeries:
        """Returns the cosine."""
        return argument.circling[1]


def solution(slope: Slope, state: Sequence[Interval], action: Sequence[Interval], order: int) -> list[list[Interval]]:
    """Returns the Taylor coefficients of a solution, from the power 0 to `order`, each a list of the state's numbers.

    :param slope: the derivatives of the state by time
    :param state: the state at time 0
    :param action: the action, which is held
    :param order: the highest power
    """
    nothing = between(0.0, 0.0, state[0].shape)

    def moving(i: int) -> PowerSeries:
        return PowerSeries(lambda k: times(moved[i][k - 1], point(np.array(1 / k))) if k else state[i])

    def held(number: Interval) -> PowerSeries:
        return PowerSeries(lambda k: nothing if k else number)

    rows = tuple(moving(i) for i in range(len(state)))
    moved = slope(rows, tuple(held(number) for number in action), Maths)
    return [[row[k] for row in rows] for k in range(order + 1)]


def variables(values: Interval) -> list[Interval]:
    """Returns values (B, V) as numbers with the derivatives by themselves."""
    rows, count = values.shape
    slopes = point(np.broadcast_to(np.eye(count), (rows, count, count)))
    bends = between(0.0, 0.0, (rows, count * count))
    return [joined(column(values, k), slopes.at((slice(None), k)), bends, axis=1) for k in range(count)]


def column(values: Interval, k: int) -> Interval:
    """Returns one of several values (B, V) as a number without derivatives, (B, 1)."""
    return values.at((slice(None), slice(k, k + 1)))


def slopes_of(number: Interval) -> Interval:
    """Returns a number's derivatives, (B, V)."""
    return number.at((..., slice(1, 1 + count_of(number))))


def bends_of(number: Interval) -> Interval:
    """Returns a number's second derivatives, (B, V, V)."""
    count = count_of(number)
    flat = number.at((..., slice(1 + count, None)))
    return Interval(*(end.reshape(len(end), count, count) for end in flat))


def count_of(number: Interval) -> int:
    """Returns V."""
    return (isqrt(4 * number.shape[-1] - 3) - 1) // 2


def shifted(number: Interval, by: float) -> Interval:
    """Returns a number to which a constant is added."""
    return joined(plus(number.at(VALUE), point(np.array(float(by)))), number.at(BEHIND), axis=1)


def product(one: Interval, other: Interval) -> Interval:
    """Returns the product of two numbers: `d(a b) = a db + b da`, `d d(a b) = a ddb + b dda + da db + db da`."""
    whole = times(one.at(VALUE), other)
    if one.shape[-1] == 1:
        return whole
    behind = plus(whole.at(BEHIND), times(other.at(VALUE), one.at(BEHIND)), crossed(one, slopes_of(other)))
    return joined(whole.at(VALUE), behind, axis=1)


def crossed(one: Interval, slopes: Interval) -> Interval:
    """Returns what two numbers' derivatives add to the second ones of their product, behind zeros for the first."""
    each = times(slopes_of(one).at((..., slice(None), None)), slopes.at((..., None, slice(None))))
    both = plus(each, Interval(*(end.swapaxes(1, 2) for end in each)))
    rows, count = slopes.shape
    return joined(between(0.0, 0.0, (rows, count)), Interval(*(end.reshape(rows, -1) for end in both)), axis=1)


def quotient(number: Interval, by: Interval) -> Interval:
    """Returns a number divided by a positive one without derivatives."""
    with exactly():
        return divide(number, by)


def divided(number: Interval, by: Interval) -> Interval:
    """Returns the quotient of two numbers: `dq = (da - q db) / b`, `ddq = (dda - q ddb - dq db - db dq) / b`."""
    divisor = by.at(VALUE)
    value = quotient(number.at(VALUE), divisor)
    if number.shape[-1] == 1:
        return value
    left = minus(number.at(BEHIND), times(value, by.at(BEHIND)))
    slopes = quotient(left.at((..., slice(count_of(number)))), divisor)
    return joined(value, quotient(minus(left, crossed(by, slopes)), divisor), axis=1)


def circling(argument: PowerSeries) -> tuple[PowerSeries, PowerSeries]:
    """Returns the series of a sine and a cosine, which are each other's derivatives."""
    angle = argument[0].at(VALUE)
    of_angle = sine_of(angle, 0.0), sine_of(angle, 0.5 * np.pi)

    def first(value: Interval, steep: Interval) -> Interval:
        if argument[0].shape[-1] == 1:
            return value
        half = times(crossed(argument[0], slopes_of(argument[0])), point(np.array(0.5)))
        behind = minus(times(steep, argument[0].at(BEHIND)), times(value, half))
        return joined(value, behind, axis=1)

    def turned(k: int, other: PowerSeries) -> Interval:
        scaled = [times(argument[j], point(np.array(j / k))) for j in range(1, k + 1)]
        return plus(*(product(scaled[j - 1], other[k - j]) for j in range(1, k + 1)))

    sine = PowerSeries(lambda k: turned(k, cosine) if k else first(*of_angle))
    cosine = PowerSeries(lambda k: -turned(k, sine) if k else first(of_angle[1], -of_angle[0]))
    return sine, cosine


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
