"""Products and sums of derivatives that are known as intervals.

Derivatives belong to the exact functions, so these intervals are widened by the rounding of float64 only, as a share of
their magnitude: what is zero stays zero, for an absent synapse has a derivative of zero.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from ncp_control.base.intervals import Array, Interval, finite_size, product

SHARE = 1e-12


def widened(low: ArrayLike, high: ArrayLike, size: ArrayLike | None = None) -> Interval:
    """Returns an interval that is wider by a small share.

    :param size: the greatest magnitude among the numbers that were added up; without it, that of each end
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    below, above = (np.abs(end) if size is None else np.asarray(size) for end in (low, high))
    with np.errstate(invalid="ignore"):
        ends = low - SHARE * below, high + SHARE * above
    if np.isfinite(ends).all():
        return Interval(*ends)
    return Interval(np.where(np.isfinite(low), ends[0], low), np.where(np.isfinite(high), ends[1], high))


def times(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the products, of shapes that broadcast, with 0 times infinity as 0."""
    ends = [product(a, b) for a in ends_of(one) for b in ends_of(other)]
    return widened(reduce(np.minimum, ends), reduce(np.maximum, ends))


def ends_of(values: Interval) -> list[Array]:
    """Returns both ends, or one if both are the same array."""
    return [values.low] if values.low is values.high else [*values]


def plus(*parts: Interval) -> Interval:
    """Returns the interval of the sums."""
    size = sum(finite_size(part) for part in parts)
    return widened(sum(part.low for part in parts), sum(part.high for part in parts), size)


def minus(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the differences."""
    return plus(one, -other)


def rows_times(factors: Interval, rows: Interval | Array) -> Interval:
    """Returns the rows of a matrix (N, M), each times a number of its own, (N,)."""
    column = Interval(factors.low[:, None], factors.high[:, None])
    return times(column, rows if isinstance(rows, Interval) else Interval(rows, rows))


def split(slopes: Interval, first: int) -> tuple[Interval, Interval]:
    """Splits derivatives (N, M) into those by the first numbers and by the others."""
    return slopes.at((slice(None), slice(first))), slopes.at((slice(None), slice(first, None)))


def matrix_times(weights: Array, slopes: Interval) -> Interval:
    """Returns the product of a matrix (M, N) and derivatives (N, F)."""
    up, down = np.maximum(weights, 0.0)[:, :, None], np.minimum(weights, 0.0)[:, :, None]
    low = (product(up, slopes.low) + product(down, slopes.high)).sum(axis=1)
    high = (product(up, slopes.high) + product(down, slopes.low)).sum(axis=1)
    size = np.abs(weights) @ finite_size(slopes)
    return widened(low, high, size)


def product_of(one: Interval, other: Interval) -> Interval:
    """Returns the product of two matrices of derivatives, (A, O) and (O, N)."""
    each = times(one.at((slice(None), slice(None), None)), other)
    return widened(each.low.sum(axis=1), each.high.sum(axis=1), finite_size(each).sum(axis=1))


def hull_of(*parts: Interval) -> Interval:
    """Returns the smallest interval that contains all parts."""
    return reduce(Interval.hull, parts)


def vertices(*values: Interval) -> list[list[Array]]:
    """Returns the corners of a box: a list of 2^n lists of n arrays.

    A function that rises or falls in each of its arguments alone, in a direction that may depend on the others, has its
    least and its greatest value at corners.
    """
    corners: list[list[Array]] = [[]]
    for interval in values:
        corners = [[*corner, end] for corner in corners for end in interval]
    return corners
