"""How fast two copies of a circuit come together, and how far an error drives them apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from ncp_control.base.intervals import Array, IntArray, Interval
from ncp_control.neurons.ranges import Slopes

MOST_STEPS = 10_000  # a past that takes longer to be forgotten counts as "not proved"
STALLED = 1e-12  # distances of which none falls by this share in a step have come to rest
ROUNDS = 300  # at most so often is the bound on an endless push made smaller
ROUNDED = 1 + 1e-12  # covers the rounding of float64 in a sum of some thousand numbers that are not negative
SMALL = 1e-12  # replaces smaller entries of an eigenvector, because its bound divides by them
VERIFIED = 6  # how often a candidate is made larger until it is a bound


class Component(NamedTuple):
    """A strongly connected part of M: neurons in cycles through each other, or one neuron alone.

    :param members: the numbers of the state
    :param factor: a factor below which differences shrink in a solver step, in the norm `max_i d_i / vector_i`
    :param vector: positive numbers v with `M v <= factor v` within the part
    """

    members: IntArray
    factor: float
    vector: Array


@dataclass(frozen=True, eq=False)
class Differences:
    """A system that the distances d between two copies of a circuit never exceed, number by number::

        d' <= min(M d + B e, W)        in a solver step, with the copies' inputs apart by e
        |action - other action| <= G d

    M and B hold the greatest magnitudes of the derivatives over the certified box (by the mean-value theorem), M from
    `(I + same + same^2 + ...) before`, and W the widths of the certified ranges. As nothing in it is negative, the
    distances from d = W fall from step to step, and those from d = 0 rise, to the same or to another fixed point.
    Everything is rounded up, and no difference is taken of numbers so close that their digits cancel.

    :param M: (N, N)
    :param B: (N, F)
    :param G: (A, N)
    :param within: `I + same + ...`, (N, N): how a push on one state reaches those behind it in the same solver step
    :param widths: W, (N,)
    :param substeps: solver steps in a step
    """

    M: Array
    B: Array
    G: Array
    within: Array
    widths: Array
    substeps: int

    @classmethod
    def of(cls, slopes: Slopes, gain: Interval, states: Interval, substeps: int) -> Differences:
        """Makes the system of a circuit.

        :param slopes: the derivatives of a solver step
        :param gain: the derivatives of the actions by the states, (A, N)
        :param states: the certified states
        """
        within = summed(slopes.same.size)
        M, B = product_up(within, slopes.before.size), product_up(within, slopes.inputs.size)
        return cls(M, B, gain.size, within, states.width, substeps)

    def after(self, d: Array, pushed: Array | float, substeps: int) -> Array:
        """Returns the distances after some solver steps, (N,) or (N, K), with `B e` given as `pushed`."""
        widths = self.widths.reshape(-1, *[1] * (d.ndim - 1))
        with np.errstate(over="ignore"):
            for _ in range(substeps):
                moved = self.M @ d if self.is_finite else product_up(self.M, d)
                d = np.minimum((moved + pushed) * ROUNDED, widths)
        return d

    @cached_property
    def is_finite(self) -> bool:
        """Whether a product of M and distances meets no infinity."""
        return bool(np.isfinite(self.M).all() and np.isfinite(self.widths).all())

    def moved(self, d: Array) -> Array:
        """Returns how far distances d of the state (N,) or (N, K) can move the actions, `G d`."""
        return product_up(self.G, d)

    def now(self, e: Array) -> Array:
        """Returns how far errors e (F,) of one observation move the state in the same step, (N,)."""
        return self.after(np.zeros(len(self.M)), product_up(self.B, e), self.substeps)

    def always(self, pushed: Array) -> Array:
        """Returns how far the state moves at most while every solver step pushes it by (N,) or (N, K).

        No distance exceeds an x with `x >= M x + pushed`. Such an x is found part by part, in the order in which they
        feed each other; rounds of the system then make it smaller.
        """
        pushes = pushed.reshape(len(pushed), -1)
        d = np.zeros_like(pushes)
        for part in self.parts:
            arrived = (pushes[part.members] + product_up(self.M[part.members], d)) * ROUNDED
            own = self.M[np.ix_(part.members, part.members)]
            d[part.members] = np.minimum(resting(own, arrived, part), self.widths[part.members, None])
        for _ in range(ROUNDS):
            smaller = np.minimum(self.after(d, pushes, 1), d)
            # Any round's result is a bound, so rounds stop where they gain less than a millionth.
            done = np.isfinite(d).all() and (d - smaller <= 1e-6 * d).all()
            d = smaller
            if done:
                break
        return d.reshape(pushed.shape)

    def forgotten(self, epsilon: float, ranges: Array) -> tuple[list[int | None], int | None]:
        """Returns after how many steps two pasts differ by at most `epsilon` of a range for ever.

        :param epsilon: a share
        :param ranges: the actions' ranges, (A,)
        :return: the steps for every number of the state, and for all actions; None if it is not proved
        """
        d, finite, enough = self.widths, np.isfinite(self.widths), epsilon * self.widths
        allowed = np.where(np.isfinite(ranges), epsilon * ranges, 0.0)  # an endless range has no share
        steps = np.where(d == 0, 0, -1)
        acted: int | None = None
        for step in range(MOST_STEPS + 1):
            steps = np.where((steps < 0) & finite & (d <= enough), step, steps)
            if acted is None:
                moved = self.moved(d)
                acted = step if (moved <= allowed).all() else None
            smaller = self.after(d, 0.0, self.substeps)
            if (acted is not None and (steps >= 0).all()) or not (smaller < d * (1 - STALLED)).any():
                break
            d = smaller
        return [None if step < 0 else int(step) for step in steps], acted

    @cached_property
    def parts(self) -> list[Component]:
        """The strongly connected parts of M, each behind all that it depends on."""
        count, number = connected_components(self.M > 0, connection="strong")
        before: dict[int, set[int]] = {k: set() for k in range(count)}
        for target, source in np.unique(number[np.argwhere(self.M > 0)], axis=0).tolist():
            if target != source:
                before[target].add(source)
        members = [np.flatnonzero(number == k) for k in TopologicalSorter(before).static_order()]
        return [Component(part, *shrinking(self.M[np.ix_(part, part)])) for part in members]

    def cycles(self) -> list[tuple[list[int], float]]:
        """Returns the members of each strongly connected part, and the part's factor in a solver step.

        The factor is the spectral radius of M within the part, or a little more. A part of one number is listed only if
        it is not proved to shrink.
        """
        parts = sorted(self.parts, key=lambda part: int(part.members[0]))
        listed = [part for part in parts if len(part.members) > 1 or self.rate_of(part) >= 1]
        return [(part.members.tolist(), part.factor) for part in listed]

    def rate(self) -> float:
        """Returns the factor by which a step shrinks differences in the long run; 1 or more if none is proved."""
        return max(map(self.rate_of, self.parts), default=0.0)

    def rate_of(self, part: Component) -> float:
        """Returns the factor by which a step shrinks the differences within a part, rounded up."""
        return float(part.factor**self.substeps * ROUNDED)


def product_up(left: Array, right: Array) -> Array:
    """Returns the product of two matrices without negative numbers, rounded up, with 0 times infinity as 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        product: Array = np.asarray(left @ right)
    if not np.isfinite(product).all():
        # BLAS makes 0 times infinity NaN, so the infinite entries are followed apart from the finite ones.
        numbers = [np.where(np.isfinite(matrix), matrix, 0.0) for matrix in (left, right)]
        endless = [(~np.isfinite(matrix)).astype(np.float64) for matrix in (left, right)]
        reached = endless[0] @ (right > 0) + (left > 0) @ endless[1]
        with np.errstate(over="ignore"):
            product = np.where(reached > 0, np.inf, numbers[0] @ numbers[1])
    return product * ROUNDED


def summed(same: Array) -> Array:
    """Returns `I + S + S^2 + ...` for the matrix S of derivatives within a solver step, in which no neuron follows
    itself, so that the powers end.
    """
    total, power = np.eye(len(same)), same
    while power.any():
        total, power = (total + power) * ROUNDED, product_up(same, power)
    return total


def resting(own: Array, arrived: Array, part: Component) -> Array:
    """Returns an x (n, K) with `x >= own x + arrived` and x >= 0, infinite where none is found.

    :param own: M within a part, (n, n)
    :param arrived: what reaches the part in every solver step, (n, K)
    :param part: the part
    """
    pushed = (arrived > 0).any(axis=0)
    usable = pushed & np.isfinite(arrived).all(axis=0) if part.factor < 1 else np.zeros_like(pushed)
    # What nothing pushes stays at 0, even in a part that would enlarge it.
    distances = np.where(pushed & ~usable, np.inf, np.zeros_like(arrived))
    b = arrived[:, usable]
    if len(own) == 1:
        distances[:, usable] = b / (1 - own[0, 0]) * ROUNDED  # the difference has no rounding to speak of
        return distances
    try:
        x = np.nan_to_num(np.maximum(np.linalg.solve(np.eye(len(own)) - own, b), 0.0), posinf=0.0)
    except np.linalg.LinAlgError:
        x = np.zeros_like(b)
    # However poor this x is, enough of the vector v makes it a bound, because v >= own v + (1 - factor) v. Twice the
    # needed amount leaves room for rounding.
    for _ in range(VERIFIED):
        missing = np.maximum((product_up(own, x) + b) * ROUNDED - x, 0.0)
        if not missing.any():
            distances[:, usable] = x
            return distances
        x = x + 2 * (missing / ((1 - part.factor) * part.vector[:, None])).max(axis=0) * part.vector[:, None]
    distances[:, usable] = np.where(missing.any(axis=0), np.inf, x)
    return distances


def shrinking(matrix: Array) -> tuple[float, Array]:
    """Returns a bound of the spectral radius of a matrix without negative numbers, and a vector v > 0 that proves it.

    Every positive v has the bound `max_i (M v)_i / v_i` (Collatz, Wielandt), and the eigenvector has the radius itself.
    """
    v = np.ones(len(matrix))
    if not np.isfinite(matrix).all():
        return float("inf"), v
    if len(matrix) > 1:
        try:
            values, vectors = np.linalg.eig(matrix)
            v = np.fmax(np.abs(vectors[:, np.abs(values).argmax()]), SMALL)  # eig returns vectors of length 1
        except np.linalg.LinAlgError:
            pass
    with np.errstate(over="ignore"):
        factor = float((matrix @ v / v).max() * ROUNDED)
    return factor, v
