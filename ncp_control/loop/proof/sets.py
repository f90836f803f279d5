"""Sets of states: zonotopes side by side, which contain what they are said to contain in spite of rounding.

A zonotope is a center and generators: all `c + G e` with every number of e between -1 and 1. What arithmetic in float64
loses is added as further generators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncp_control.base.intervals import Array, Interval, point
from ncp_control.base.slopes import SHARE

TINY = 1e-290  # far above the numbers that lose digits because they are near zero
KEPT = 80  # generators, in multiples of the dimension
SHORT = 1e-4  # generators that are shorter than this share of the other set become sides of a box
ROUNDS = 200  # of the search for a proof that a set is in another
AIM = 0.9  # of a row of magnitudes in this search, where 1 is allowed


@dataclass(frozen=True, eq=False)
class Sets:
    """B zonotopes of D dimensions.

    :param center: (B, D)
    :param generators: (B, D, K)
    """

    center: Array
    generators: Array

    @classmethod
    def boxes(cls, low: Array, high: Array) -> Sets:
        """Returns boxes, with their ends (B, D)."""
        center = (low + high) / 2
        # The largest distance from the middle, as it is after rounding.
        radius = np.maximum(high - center, center - low) * (1 + SHARE)
        return cls(center, radius[:, :, None] * np.eye(low.shape[1]))

    def __len__(self) -> int:
        return len(self.center)

    @property
    def radius(self) -> Array:
        """How far each set reaches from its center, (B, D)."""
        found: Array = np.abs(self.generators).sum(axis=2) * (1 + SHARE)
        return found

    @property
    def box(self) -> Interval:
        """The smallest box around each set, (B, D)."""
        reach = self.radius + SHARE * np.abs(self.center)
        return Interval(self.center - reach, self.center + reach)

    def at(self, which: Array | slice) -> Sets:
        """Returns some of the sets."""
        return Sets(self.center[which], self.generators[which])

    def followed_by(self, other: Sets) -> Sets:
        """Returns these sets and others."""
        count = max(self.generators.shape[2], other.generators.shape[2])
        both = [np.pad(one.generators, ((0, 0), (0, 0), (0, count - one.generators.shape[2]))) for one in (self, other)]
        return Sets(np.concatenate([self.center, other.center]), np.concatenate(both))

    def with_errors(self, errors: Array) -> Sets:
        """Returns the sets with further dimensions, in which each reaches as far from zero as `errors` (B, S) say."""
        rows, size = errors.shape
        center = np.concatenate([self.center, np.zeros((rows, size))], axis=1)
        old = np.pad(self.generators, ((0, 0), (0, size), (0, 0)))
        new = np.pad(errors[:, :, None] * np.eye(size), ((0, 0), (self.center.shape[1], 0), (0, 0)))
        return Sets(center, np.concatenate([old, new], axis=2))

    def replaced(self, part: slice, values: Interval, slopes: Interval, errors: Array) -> Sets:
        """Returns the sets with functions of all their numbers in some dimensions, by the mean value theorem.

        :param part: the dimensions
        :param values: what the functions make of the centers, (B, M)
        :param slopes: their derivatives by all dimensions over `box`, (B, M, D)
        :param errors: how far the numbers may be off besides, (B, M)
        """
        middle, own, further = self._grown(values, slopes, errors)
        center, generators = self.center.copy(), self.generators.copy()
        center[:, part], generators[:, part] = middle, own
        off = np.zeros((*center.shape, middle.shape[1]))
        off[:, part] = further
        return Sets(center, np.concatenate([generators, off], axis=2))

    def picked(self, dimensions: Array | slice) -> Sets:
        """Returns the sets in some dimensions."""
        return Sets(self.center[:, dimensions], self.generators[:, dimensions])

    def linear(self, weights: Array, bias: Array, share: float) -> Sets:
        """Returns `W z + b` of the sets, each rounding of which may lose a share of what is added up."""
        size = self.box.size @ np.abs(weights).T + np.abs(bias)
        terms = np.count_nonzero(weights, axis=1) + 1
        rows = point(np.broadcast_to(weights, (len(self), *weights.shape)))
        middle = self.center @ weights.T + bias
        return self._followed(
            Interval(middle, middle), rows, terms * share * size + (len(weights.T) + 4) * SHARE * size
        )

    def bent(self, values: Interval, steep: Array, errors: Array) -> Sets:
        """Returns a function of each number that is linear, with the slopes `steep`, but for what is in `values`."""
        return self._followed(values, point(steep[:, :, None] * np.eye(steep.shape[1])), errors)

    def with_others(self, others: Sets) -> Sets:
        """Returns these dimensions and behind them those of other sets, whose generators continue those of these."""
        more = others.generators.shape[2] - self.generators.shape[2]
        own = np.pad(self.generators, ((0, 0), (0, 0), (0, more)))
        center = np.concatenate([self.center, others.center], axis=1)
        return Sets(center, np.concatenate([own, others.generators], axis=1))

    def _followed(self, values: Interval, slopes: Interval, errors: Array) -> Sets:
        middle, own, further = self._grown(values, slopes, errors)
        return Sets(middle, np.concatenate([own, further], axis=2))

    def _grown(self, values: Interval, slopes: Interval, errors: Array) -> tuple[Array, Array, Array]:
        """Returns the centers, the generators, and the further ones, of functions of the sets."""
        middle, rows, radius = values.middle, slopes.middle, self.radius[:, :, None]
        beside = np.maximum(slopes.high - rows, rows - slopes.low)
        # A product of a row and a column is off by less than its length times a rounding of its magnitude.
        lost = (np.abs(rows) @ radius)[..., 0] * ((rows.shape[2] + 4) * SHARE)
        off = np.maximum(values.high - middle, middle - values.low) + errors + (beside @ radius)[..., 0] + lost
        further = (off * (1 + 4 * SHARE) + TINY)[:, :, None] * np.eye(middle.shape[1])
        return middle, rows @ self.generators, further

    def reduced(self, kept: int = KEPT) -> Sets:
        """Returns sets around these that have fewer generators: the shortest become sides of a box."""
        count, size = self.generators.shape[2], self.center.shape[1]
        most = kept * size
        if count <= most:
            return self
        sizes = np.abs(self.generators)
        order = np.argsort(sizes.sum(axis=1) - sizes.max(axis=1), axis=1)
        cut = count - (most - size)
        sorted_ = np.take_along_axis(self.generators, order[:, None, :], axis=2)
        sides = np.abs(sorted_[:, :, :cut]).sum(axis=2) * (1 + SHARE) + TINY
        return Sets(self.center, np.concatenate([sorted_[:, :, cut:], sides[:, :, None] * np.eye(size)], axis=2))

    def are_within(self, outer: Sets) -> bool:
        """Whether it is shown that each of these sets lies in another one.

        :param outer: one set
        """
        return all(_is_within(self.at(slice(k, k + 1)), outer) for k in range(len(self)))


def _is_within(inner: Sets, outer: Sets) -> bool:
    """Whether it is shown that one set lies in another.

    It does if `[G1, c1 - c2] = G2 Y` with a Y whose rows have magnitudes that add up to 1 at most. Such a Y is looked
    for by the method of Douglas and Rachford, which goes back and forth between all Y that solve the equation and all
    whose rows are short enough. What Y then leaves of the equation is covered by the same generators once more.
    """
    (center,), (generators,), (middle,), (around,) = inner.center, inner.generators, outer.center, outer.generators
    scale = np.abs(around).sum(axis=1)
    generators, around, apart = generators / scale[:, None], around / scale[:, None], (center - middle) / scale
    short = np.abs(generators).max(axis=0) < SHORT
    sides = np.abs(generators[:, short]).sum(axis=1) * (1 + SHARE)
    wanted = np.concatenate([generators[:, ~short], np.diag(sides), apart[:, None]], axis=1)
    inverse = np.linalg.pinv(around)
    rounding = (wanted.shape[1] + around.shape[1] + 10) * 2.0**-52
    size = np.abs(around) @ np.abs(inverse) + np.eye(len(around))
    wrong = (np.abs(np.eye(len(around)) - around @ inverse) + rounding * size).sum(axis=1).max()
    if not wrong < 0.5:
        return False
    tried = inverse @ wanted
    for _ in range(ROUNDS):
        found = tried - inverse @ (around @ tried - wanted)
        size = np.abs(around) @ np.abs(found) + np.abs(wanted)
        left = (np.abs(wanted - around @ found) + rounding * size).sum(axis=1)
        left = (left + rounding * (np.abs(center) + np.abs(middle)) / scale).max()
        # A vector v that is nowhere above `left` is `around @ (inverse @ v)` and what is less than half of `left`. That
        # is covered in the same way, and so on; the sum of all of these is at most twice the first.
        taken = np.abs(found).sum(axis=1) + 2 * left * np.abs(inverse).sum(axis=1)
        if (taken * (1 + SHARE) <= 1).all():
            return True
        tried = tried + shortened(2 * found - tried, AIM) - found
    return False


def shortened(rows: Array, most: float) -> Array:
    """Returns the nearest rows whose magnitudes add up to `most` at most."""
    size = np.abs(rows)
    sorted_ = -np.sort(-size, axis=1)
    beyond = np.cumsum(sorted_, axis=1) - most
    count = (sorted_ * np.arange(1, rows.shape[1] + 1) > beyond).sum(axis=1, keepdims=True)
    by = np.take_along_axis(beyond, count - 1, axis=1) / count
    nearest: Array = np.sign(rows) * np.maximum(size - by, 0)
    return np.where(size.sum(axis=1, keepdims=True) > most, nearest, rows)
