"""Sequences of observations that attack a certificate: random points of a box, its corners, and held values."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.base.intervals import LARGEST, Interval
from ncp_control.neurons.ranges import Elapsed

SLOWEST = 1000.0  # the slowest numbers of a long sequence are held for so many steps on average


class Sequences:
    """Draws observations from a box, and elapsed times; the same seed draws the same.

    :param box: the observations to draw from, (n,), finite
    :param elapsed: the times between two observations
    :param seed: seed of all that is drawn
    """

    def __init__(self, box: Interval, elapsed: Elapsed, seed: int = 0) -> None:
        self.low, self.high = (torch.as_tensor(end).float().clamp(-LARGEST, LARGEST) for end in box)
        self.elapsed = elapsed
        self.random = torch.Generator().manual_seed(seed)

    @property
    def span(self) -> Tensor:
        """The width of the box, (n,), at most the largest number of float32."""
        return (self.high - self.low).clamp(max=LARGEST)

    def uniform(self, *shape: int) -> Tensor:
        """Returns random numbers from 0 to 1."""
        return torch.rand(*shape, generator=self.random)

    def chance(self, rows: int, share: float) -> Tensor:
        """Returns which of the rows are chosen, (rows, 1, 1)."""
        return self.uniform(rows, 1, 1) < share

    def integers(self, most: int, count: int) -> Tensor:
        """Returns random integers from 0 to `most - 1`."""
        return torch.randint(most, (count,), generator=self.random)

    def at(self, share: Tensor) -> Tensor:
        """Returns the observations at shares (..., n) of the way through the box."""
        # Rounding may lead past the ends, and the sum of two products is finite where the width of the box is not.
        return ((1 - share) * self.low + share * self.high).clamp(self.low, self.high)

    def short(self, rows: int, steps: int) -> tuple[Tensor, Tensor]:
        """Returns observations (rows, steps, n), many of them corners of the box or held, and elapsed times."""
        share = self.uniform(rows, steps, len(self.low))
        # Extreme values are most often reached at corners of the box, and by observations that stay.
        share = torch.where(self.chance(rows, 0.6), share.round(), share)
        share = torch.where(self.chance(rows, 0.5), share[:, :1], share)
        return self.at(share), self.times(rows, steps)

    def long(self, rows: int, steps: int, held: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns observations (rows, steps, n) and elapsed times for long sequences.

        :param held: observations (rows, n); of every pair of rows, one holds a random part of these numbers and the
            other one the rest of them
        """
        seen = self.at(self.levels(rows, steps, len(self.low)))
        if held is not None:
            pairs = self.uniform((rows + 1) // 2, 1, len(self.low)) < 0.5
            free = torch.stack([pairs, ~pairs], dim=1).flatten(0, 1)[:rows]
            seen = torch.where(free, seen, held[:, None])
        return seen, self.times(rows, steps)

    def levels(self, rows: int, steps: int, count: int) -> Tensor:
        """Returns shares of the way through ranges, (rows, steps, count), for long sequences.

        Some numbers change in every step, and others are held for a while, so that slow states come to their ends, and
        gates stay open or shut. Most of them stay at the ends of the ranges.
        """
        share = self.uniform(rows, steps, count)
        share = torch.where(self.uniform(rows, 1, count) < 0.6, share.round(), share)
        slow = SLOWEST ** -self.uniform(rows, 1, count)  # every order of magnitude is as likely as any other
        often = torch.where(self.uniform(rows, 1, count) < 0.4, 1.0, slow)
        draw = self.uniform(rows, steps, count)
        changes = torch.where(self.chance(rows, 0.3), draw[..., :1], draw) < often
        changes[:, :1] = True
        # The number of the last step in which each value changed, from which the value is copied.
        last = torch.where(changes, torch.arange(steps)[None, :, None], 0).cummax(dim=1).values
        return share.gather(1, last)

    def times(self, rows: int, steps: int) -> Tensor:
        """Returns elapsed times, (rows, steps), most of them the shortest or the longest."""
        share = self.uniform(rows, steps)
        share = torch.where(self.chance(rows, 0.7)[..., 0], share.round(), share)
        low, high = self.elapsed
        return ((1 - share) * low + share * high).clamp(low, high)
