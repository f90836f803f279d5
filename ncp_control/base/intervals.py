"""Arithmetic with intervals, rounded outward far enough to contain what float32 code computes.

Every operation returns an interval that contains the exact result for all numbers in its operands, and the results of
float32 and float64 arithmetic with the operations of a sum in any order. For this it widens each end by a share of its
magnitude: `SLACK`, which is four times the unit roundoff of float32, for every rounding.

An interval that is infinite on both sides says nothing at all. Where numbers can pass the largest one of float32, sums
of them can be NaN, so the interval is infinite there, and so is that of every function of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

SLACK = 2.0**-22
EXACT_SLACK = 2.0**-51  # the same for float64
LARGEST = float(np.finfo(np.float32).max)
FUNCTION_ROUNDINGS = 8  # how many roundings a sigmoid, a tanh or an exp may be off by
LEAST = 2.0**-125  # near the smallest normal number of float32, 2^-126, errors are no share of the value


_slack: ContextVar[float | None] = ContextVar("_slack", default=None)  # each thread has its own


@contextmanager
def rounding(share: float) -> Iterator[None]:
    """While the block runs, a rounding widens an interval by this share of its magnitude, and not by `SLACK`."""
    token = _slack.set(share)
    try:
        yield
    finally:
        _slack.reset(token)


def exactly() -> AbstractContextManager[None]:
    """While the block runs, intervals contain what exact and float64 arithmetic give, but not what float32 gives."""
    return rounding(EXACT_SLACK)


class Interval(NamedTuple):
    """The numbers from `low` to `high`: two arrays of one shape."""

    low: Array
    high: Array

    def at(self, which: Any) -> Interval:
        """Returns some of the intervals, as an index into both arrays chooses them."""
        return Interval(self.low[which], self.high[which])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both arrays."""
        return np.shape(self.low)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    @property
    def width(self) -> Array:
        """How far the ends are apart."""
        with np.errstate(invalid="ignore"):
            found: Array = np.nan_to_num(self.high - self.low, nan=0.0, posinf=np.inf)
        return found

    @property
    def size(self) -> Array:
        """The greatest magnitude."""
        found: Array = np.maximum(np.abs(self.low), np.abs(self.high))
        return found

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """Whether both ends are finite."""
        found: NDArray[np.bool_] = np.isfinite(self.low) & np.isfinite(self.high)
        return found

    def where(self, shown: Any) -> Interval:
        """Returns the intervals where they are shown, and infinite ones elsewhere."""
        return Interval(np.where(shown, self.low, -np.inf), np.where(shown, self.high, np.inf))

    @property
    def middle(self) -> Array:
        """The middle of each interval."""
        return (self.low + self.high) / 2

    def hull(self, other: Interval) -> Interval:
        """Returns the smallest interval that contains both."""
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def within(self, other: Interval) -> Interval:
        """Returns the part that lies in another interval, for two that contain the same numbers."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def contains(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Whether values (..., shape) lie inside."""
        given = np.asarray(values, dtype=np.float64)
        found: NDArray[np.bool_] = (given >= self.low) & (given <= self.high)
        return found


def point(values: ArrayLike) -> Interval:
    """Returns intervals of one number each."""
    given = np.asarray(values, dtype=np.float64)
    return Interval(given, given)


def between(low: ArrayLike, high: ArrayLike, shape: tuple[int, ...] | int) -> Interval:
    """Returns intervals of a shape with the same ends everywhere, or with ends that broadcast to it."""
    return Interval(*(np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), shape)) for end in (low, high)))


def joined(*parts: Interval, axis: int = 0) -> Interval:
    """Returns the intervals of several arrays, one behind the other along an axis."""
    return Interval(*(np.concatenate(ends, axis) for ends in zip(*parts, strict=True)))


def outward(low: ArrayLike, high: ArrayLike, roundings: ArrayLike = 1, magnitude: ArrayLike = 0.0) -> Interval:
    """Widens an interval by the errors of rounding; it is infinite where float32 may overflow.

    :param low: the lower end
    :param high: the upper end
    :param roundings: how many roundings the computed value has gone through
    :param magnitude: the greatest magnitude among the numbers that were added up, if it is more than the result's
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    share = _slack.get()
    slack = np.asarray(roundings) * (SLACK if share is None else share)
    with np.errstate(invalid="ignore"):
        below = np.maximum(np.abs(low), magnitude) * slack + LEAST
        above = np.maximum(np.abs(high), magnitude) * slack + LEAST
        ends = low - below, high + above
    found = Interval(np.where(np.isfinite(low), ends[0], low), np.where(np.isfinite(high), ends[1], high))
    fits = (finite_size(found) <= LARGEST) & (np.asarray(magnitude) <= LARGEST)
    return found.where(fits & ~np.isnan(found.low) & ~np.isnan(found.high))


def product(one: ArrayLike, other: ArrayLike) -> Array:
    """Returns the product, where 0 times infinity is 0: a weight of zero passes nothing on."""
    with np.errstate(invalid="ignore"):
        found: Array = np.asarray(one, dtype=np.float64) * np.asarray(other, dtype=np.float64)
    undefined = np.isnan(found)
    return np.where(undefined, 0.0, found) if undefined.any() else found


def add(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the sums."""
    size = np.maximum(finite_size(one), finite_size(other))
    return outward(one.low + other.low, one.high + other.high, 1, size)


def subtract(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the differences."""
    return add(one, -other)


def multiply(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the products."""
    ends = np.stack([product(a, b) for a in one for b in other])  # an extreme of a product lies in a corner of the box
    return outward(ends.min(axis=0), ends.max(axis=0))


def divide(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the quotients; everything where the divisor can be zero or negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([np.nan_to_num(a / b, nan=0.0, posinf=np.inf, neginf=-np.inf) for a in one for b in other])
    found = outward(ends.min(axis=0), ends.max(axis=0))
    usable = other.low > 0
    return Interval(np.where(usable, found.low, -np.inf), np.where(usable, found.high, np.inf))


def sigmoid_of(values: Array) -> Array:
    """Returns `1 / (1 + exp(-x))`, which is computed so that nothing overflows."""
    with np.errstate(over="ignore"):
        small = np.exp(-np.abs(values))
    found: Array = np.where(values >= 0, 1 / (1 + small), small / (1 + small))
    return found


def sigmoid(values: Interval) -> Interval:
    """Returns the interval of the sigmoids, which lies in [0, 1].

    Code that computes a power of two rounds the argument when it multiplies it by log2(e).
    """
    arguments = outward(*values)
    found = outward(sigmoid_of(arguments.low), sigmoid_of(arguments.high), FUNCTION_ROUNDINGS)
    return found.within(between(0.0, 1.0, values.shape)).where(arguments.is_finite)


def tanh(values: Interval) -> Interval:
    """Returns the interval of the hyperbolic tangents, which lies in [-1, 1].

    Code that computes `2 sigmoid(2 x) - 1` is off by a share of 1, however small the tanh is.
    """
    found = outward(np.tanh(values.low), np.tanh(values.high), FUNCTION_ROUNDINGS, 0.5)
    return found.within(between(-1.0, 1.0, values.shape)).where(values.is_finite)


def affine(values: Interval, weights: Array, shift: ArrayLike = 0.0) -> Interval:
    """Returns the interval of `W x + b`.

    :param values: x, (n,)
    :param weights: W, (m, n)
    :param shift: b, (m,)
    """
    up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    low = product(up, values.low).sum(axis=1) + product(down, values.high).sum(axis=1) + shift
    high = product(up, values.high).sum(axis=1) + product(down, values.low).sum(axis=1) + shift
    # What is rounded are the terms, which may be larger than their sum.
    size = product(np.abs(weights), finite_size(values)).sum(axis=1) + np.abs(shift)
    return outward(low, high, np.count_nonzero(weights, axis=1) + 1, size)


def finite_size(values: Interval) -> Array:
    """Returns the greatest magnitude of the finite ends, and 0 without one: infinite ends need no widening."""
    low, high = (np.where(np.isfinite(end), np.abs(end), 0.0) for end in values)
    return np.maximum(low, high)
