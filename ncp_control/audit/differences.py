"""How fast two copies of a circuit come together, and how far an error drives them apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components

from ncp_control.audit.cells.known import Slopes
from ncp_control.audit.intervals import Array, Interval

MOST_STEPS = 10_000
STALLED = 1e-12
ROUNDS = 300  # by which a bound on what never ends is made smaller
ROUNDED_UP, ROUNDED = 1 + 1e-6, 1 + 1e-12
SMALL = 1e-12  # the least share of an eigenvector's greatest number that a number in it may have


@dataclass(frozen=True, eq=False)
class Differences:
    """A system that the distances d between two copies of a circuit never exceed, number by number::

        d' <= min(M d + B e, W)        in a solver step, with the copies' inputs apart by e
        |action - other action| <= G d

    M and B hold the greatest magnitudes of the derivatives over the certified box (by the mean-value theorem), M from
    `(I - same)^-1 before`, and W the widths of the certified ranges. As nothing in it is negative, the distances from
    d = W fall from step to step, and those from d = 0 rise, to the same or to another fixed point.

    :param M: (N, N)
    :param B: (N, F)
    :param G: (A, N)
    :param within: `(I - same)^-1`, by which what pushes one state within a solver step pushes those behind it, (N, N)
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
        inverse: Array = np.asarray(np.linalg.inv(np.eye(len(states.low)) - slopes.same.size))
        M, B = inverse @ slopes.before.size, inverse @ slopes.inputs.size
        return cls(M, B, gain.size, inverse, states.width, substeps)

    def after(self, d: Array, pushed: Array | float, substeps: int) -> Array:
        """Returns the distances after some solver steps, (N,) or (N, K), with `B e` given as `pushed`."""
        widths = self.widths.reshape(-1, *[1] * (d.ndim - 1))
        for _ in range(substeps):
            with np.errstate(invalid="ignore"):
                moved = self.M @ d
                d = np.minimum(np.where(np.isnan(moved), np.inf, moved) + pushed, widths)
        return d

    def moved(self, d: Array) -> Array:
        """Returns how far distances d of the state (N,) or (N, K) can move the actions, `G d`."""
        with np.errstate(invalid="ignore"):
            moved = self.G @ d
        return np.asarray(np.where(np.isnan(moved), np.inf, moved))

    def now(self, e: Array) -> Array:
        """Returns how far errors e (F,) of one observation move the state in the same step, (N,)."""
        return self.after(np.zeros(len(self.M)), self.B @ e, self.substeps)

    def always(self, pushed: Array) -> Array:
        """Returns how far the state moves at most while every solver step is pushed by (N,) or (N, K).

        Where M shrinks differences, no distance exceeds `(I - M)^-1 pushed`; from there, or from W, rounds of the
        system make the bound smaller.
        """
        d = np.array(np.broadcast_to(self.widths.reshape(-1, *[1] * (pushed.ndim - 1)), pushed.shape))
        if np.isfinite(pushed).all() and self.rate() < 1:
            d = np.minimum(d, np.linalg.solve(np.eye(len(self.M)) - self.M, pushed) * ROUNDED_UP)
        for _ in range(ROUNDS):
            smaller = np.minimum(self.after(d, pushed, 1), d)
            if np.isfinite(d).all() and (d - smaller <= 1e-6 * d).all():
                return smaller
            d = smaller
        return d

    def forgotten(self, epsilon: float, ranges: Array) -> tuple[list[int | None], int | None]:
        """Returns after how many steps two pasts differ by at most `epsilon` of a range for ever.

        :param epsilon: a share
        :param ranges: the actions' ranges, (A,)
        :return: the steps for every number of the state, and for all actions; None where it is not shown
        """
        d, finite, enough = self.widths, np.isfinite(self.widths), epsilon * self.widths
        steps = np.where(d == 0, 0, -1)
        acted: int | None = None
        for step in range(MOST_STEPS + 1):
            steps = np.where((steps < 0) & finite & (d <= enough), step, steps)
            if acted is None:
                moved = self.moved(d)
                acted = step if (np.isfinite(moved) & (moved <= epsilon * ranges)).all() else None
            smaller = self.after(d, 0.0, self.substeps)
            if (acted is not None and (steps >= 0).all()) or not (smaller < d * (1 - STALLED)).any():
                break
            d = smaller
        return [None if one < 0 else int(one) for one in steps], acted

    @cached_property
    def parts(self) -> list[tuple[list[int], float]]:
        """The numbers of the state in each strongly connected part of M, with the part's spectral radius."""
        _, part = connected_components(~(self.M <= 0), connection="strong")
        members = [np.flatnonzero(part == k) for k in range(part.max(initial=-1) + 1)]
        return [(one.tolist(), radius(self.M[np.ix_(one, one)])) for one in members]

    def cycles(self) -> list[tuple[list[int], float]]:
        """Returns the numbers of the state in each strongly connected part, and the part's factor of a solver step.

        The factor is the spectral radius of M within the part: some weighted maximum norm of the differences shrinks by
        it, or by as little more as one likes. A part of one number is listed only if its factor is not below 1.
        """
        return [(members, factor) for members, factor in self.parts if len(members) > 1 or factor >= 1]

    def rate(self) -> float:
        """Returns the factor by which differences shrink in a step in the end; 1 or more if that is not shown."""
        return max((factor for _, factor in self.parts), default=0.0) ** self.substeps


def radius(matrix: Array) -> float:
    """Returns an upper bound of the spectral radius of a matrix without negative numbers; infinite if a number is.

    For every positive v, `max_i (M v)_i / v_i` is one (Collatz, Wielandt); the eigenvector makes it the radius itself.
    """
    if not np.isfinite(matrix).all():
        return float("inf")
    if len(matrix) == 1:
        return float(matrix[0, 0])
    values, vectors = np.linalg.eig(matrix)
    v = np.abs(vectors[:, np.abs(values).argmax()])
    v = np.maximum(v, v.max() * SMALL)
    return float((matrix @ v / v).max() * ROUNDED)
