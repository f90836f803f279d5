"""A circuit and its body as a function of sets: where all starts are after a period, and on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.intervals import Array, Interval, between, joined, point
from ncp_control.base.slopes import SHARE, hull_of, plus, times
from ncp_control.loop.proof.circuit import CircuitOnSets, part_of_way
from ncp_control.loop.proof.series import bends_of, column, slopes_of, solution, variables
from ncp_control.loop.proof.sets import Sets
from ncp_envs.equations import Equations

ORDER = 4  # of the Taylor series
ROUNDS = 8  # attempts to enclose a part of a period
ROOM = 0.1  # an enclosure that fails grows by this share of its width
PIECES = 3  # of the way from the center of a set to any point in it
STEPS = 2  # parts of a period
LONGEST = 0.2  # seconds of a part

Flags = NDArray[np.bool_]


class Passed(NamedTuple):
    """What happened to sets in a period.

    :param sets: body and neurons at its end, (B, m + N)
    :param tube: for each part of the period, in which box the body stays, (B, m)
    :param enclosed: which sets could be followed, (B,)
    """

    sets: Sets
    tube: list[Interval]
    enclosed: Flags

    @property
    def reach(self) -> Interval:
        """Where the body is in the period, and the neurons at its end, (B, m + N)."""
        box, m = self.sets.box, self.tube[0].shape[1]
        low = np.minimum.reduce([part.low for part in self.tube])
        high = np.maximum.reduce([part.high for part in self.tube])
        return joined(Interval(low, high), box.at((slice(None), slice(m, None))), axis=1)


class ProvedLoop:
    """A circuit and its body, for proofs.

    :param circuit: the circuit
    :param body: the body
    :param errors: the greatest error of each sensor, (S,)
    :ivar parts: into how many parts a period is divided
    """

    def __init__(self, circuit: CircuitOnSets, body: Equations, errors: Array) -> None:
        self.circuit, self.body, self.errors = circuit, body, errors
        self.m, self.seen = len(body.names), list(body.seen)
        self.size = self.m + circuit.size
        self.parts = max(STEPS, int(np.ceil(body.period / LONGEST)))

    def period(self, sets: Sets) -> Passed:
        """Returns where sets of body and neurons are a period later."""
        sets = self.circuit.step(sets.reduced(), self.seen, self.errors, self.m)
        tube, fine = [], np.ones(len(sets), dtype=bool)
        for _ in range(self.parts):
            sets, box, enclosed = self.flown(sets, self.body.period / self.parts)
            fine &= enclosed
            tube.append(box)
        return Passed(sets.picked(slice(self.size)), tube, fine)

    def flown(self, sets: Sets, h: float) -> tuple[Sets, Interval, Flags]:
        """Returns sets of body, neurons and actions a time h later, with a box around the body's way."""
        m, size = self.m, self.size
        box, center, rows = sets.box, sets.center, len(sets)
        body, held = box.at((slice(None), slice(m))), box.at((slice(None), slice(size, None)))
        enclosed = self._enclosure(body, held, h)
        fine: Flags = np.asarray(enclosed.is_finite.all(axis=1))
        enclosed = Interval(
            *(np.where(fine[:, None], end, mid) for end, mid in zip(enclosed, [body.low, body.high], strict=True))
        )
        way = self._coefficients(enclosed, held, ORDER + 1)
        whole, at = joined(body, held, axis=1), np.concatenate([center[:, :m], center[:, size:]], axis=1)
        values, steep, speed = self._polynomial(whole, at, h)
        values = plus(values, times(way[ORDER + 1], point(np.array(h ** (ORDER + 1)))))
        slopes = Interval(*np.zeros((2, rows, m, sets.center.shape[1])))
        for every, part in zip(slopes, steep, strict=True):
            every[:, :, :m], every[:, :, size:] = part[:, :, :m], part[:, :, m:]
        # On the way: the box, its speed for up to h, and half the acceleration anywhere on the way for up to h^2.
        moved = times(speed, between(0.0, h, speed.shape))
        curved = times(way[2], between(0.0, h * h, speed.shape))
        along = plus(body, moved, curved).within(enclosed)
        return sets.replaced(slice(m), values, slopes, np.zeros((rows, m))), along, fine

    def _polynomial(self, whole: Interval, at: Array, h: float) -> tuple[Interval, Interval, Interval]:
        """Returns the Taylor polynomial at the time h as a function of the state and the action that it begins with.

        Its value and its slopes are those at a center. How it bends on the way from there to any point is added, part
        by part of the way. Center and parts go through the series side by side.

        :param whole: states and actions, (B, V)
        :param at: the centers, (B, V)
        :return: the values (B, m) with what is beyond the slopes, the slopes (B, m, V), and the speeds anywhere (B, m)
        """
        rows, m = len(at), self.m
        room = SHARE * whole.size
        parts = [part_of_way(point(at), whole, k / PIECES) for k in range(1, PIECES + 1)]
        numbers = variables(joined(point(at), *(Interval(part.low - room, part.high + room) for part in parts)))
        powers = solution(self.body.slope, numbers[:m], numbers[m:], ORDER)
        ends = [added([power[k] for power in powers], h) for k in range(m)]
        values = joined(*(end.at((slice(rows), slice(1))) for end in ends), axis=1)
        away = np.maximum(whole.high - at, at - whole.low) * (1 + SHARE)
        bent = joined(*(beyond_slopes(bends_of(end.at(slice(rows, None))), away) for end in ends), axis=1)
        slopes = joined(*(slopes_of(end.at(slice(rows))).at((slice(None), None)) for end in ends), axis=1)
        speed = joined(*(part.at((slice(-rows, None), slice(1))) for part in powers[1]), axis=1)
        return plus(values, bent), slopes, speed

    def _coefficients(self, state: Interval, action: Interval, order: int) -> list[Interval]:
        """Returns the Taylor coefficients (B, m) of solutions from a state (B, m), one for each power."""
        rows, held = ([column(values, k) for k in range(values.shape[1])] for values in (state, action))
        return [joined(*power, axis=1) for power in solution(self.body.slope, rows, held, order)]

    def _enclosure(self, body: Interval, held: Interval, h: float) -> Interval:
        """Returns boxes that no solution leaves before h; infinite ones where none was found."""
        span = between(0.0, h, body.shape)
        tried = body
        for _ in range(ROUNDS):
            needed = plus(body, times(self._coefficients(tried, held, 1)[1], span))
            inside: Flags = np.asarray((needed.low >= tried.low) & (needed.high <= tried.high))
            done: Flags = np.asarray(inside.all(axis=1, keepdims=True))
            if done.all():
                return tried
            wider = hull_of(needed, tried)
            room = ROOM * wider.width + 1e-12 * (1 + wider.size)
            tried = Interval(np.where(done, tried.low, wider.low - room), np.where(done, tried.high, wider.high + room))
            tried = Interval(*(np.clip(end, -1e6, 1e6) for end in tried))
        return tried.where(done)


def beyond_slopes(bends: Interval, away: Array) -> Interval:
    """Returns the range of what a function has beyond its slopes at a center, (B, 1), for all d within `away` (B, V).

    That is the integral of `(1 - t) d H(t) d` for t from 0 to 1, with the second derivatives H in each of `PIECES`
    parts of that way. A square is on one side, whatever its d.

    :param bends: H, (PIECES * B, V, V), part by part
    :param away: how far each variable is from the center at most
    """
    pairs = away[:, :, None] * away[:, None, :] * (1 + SHARE)
    reach = Interval(-pairs * ~np.eye(away.shape[1], dtype=bool), pairs)
    parts = []
    for k, part in enumerate(np.split(np.arange(len(bends.low)), PIECES)):
        weight = (1 - (k + 0.5) / PIECES) / PIECES
        parts.append(times(bends.at(part), Interval(reach.low * weight, reach.high * weight)))
    summed = plus(*parts)
    return Interval(*(end[:, None] for end in plus(*(summed.at((..., i, j)) for i, j in np.ndindex(*pairs.shape[1:])))))


def added(powers: list[Interval], h: float) -> Interval:
    """Returns a Taylor polynomial at the time h."""
    return plus(*(times(part, point(np.array(h**k))) for k, part in enumerate(powers)))
