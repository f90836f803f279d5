"""What is known about a CfC of the default or the no_gate mode: its layers move one after another."""

from __future__ import annotations

import numpy as np

from ncp_control.base.curves import INFINITE, TANH, pieces, sigmoid_slopes, tanh_line
from ncp_control.base.intervals import (
    FUNCTION_ROUNDINGS,
    Array,
    Interval,
    affine,
    between,
    divide,
    finite_size,
    joined,
    outward,
    point,
    product,
    sigmoid,
)
from ncp_control.base.slopes import hull_of, minus, plus, rows_times, split, times, vertices
from ncp_control.neurons import CfC
from ncp_control.neurons.layered.ranges import ROUNDINGS, KnownLayered
from ncp_control.neurons.ranges import Elapsed, Slopes

FEW = 4  # pieces for the range of a state, which every round computes: more gain little


class KnownCfC(KnownLayered):
    """A CfC without a backbone. With maps `z1, z2, a, b` of what a neuron reads, `T = tanh(z)` and the time t elapsed::

        default:  h' = T1 + s (T2 - T1),    no_gate:  h' = T1 + s T2,    s = sigmoid(a t + b)

        dh' = k (1 - T1^2) dz1 + s (1 - T2^2) dz2 + (T2 - T1) s (1 - s) (t da + db),    k = 1 - s

    with `k = 1` and T2 in the place of `T2 - T1` in the mode no_gate. A neuron reads the present state of the layers
    before its own, and the former state of its own layer and of those behind it.
    """

    @classmethod
    def covers(cls, cell: CfC) -> bool:
        """Whether the cell has no backbone, and is not of the mode "pure"."""
        return cell.mode != "pure" and not cell.backbone_widths

    def __init__(self, cell: CfC, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        self.gated = cell.mode == "default"

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the next state."""
        return self.after(states, features)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the next state."""
        return self._step(states, features)[0]

    def _step(self, states: Interval, features: Interval) -> tuple[Interval, list[Interval]]:
        """Returns the range of the next state, and those of z1, z2 and `a t + b`."""
        # Layer by layer, so that a layer reads what the earlier ones have become.
        after = Interval(states.low.copy(), states.high.copy())
        maps = [Interval(np.empty(self.size), np.empty(self.size)) for _ in range(3)]
        for part in self.parts:
            sources = joined(features, after)
            arguments = [affine(sources, self.weights[k, part], self.bias[k, part]) for k in range(2)]
            arguments.append(self._gate_argument(sources, part))
            for interval, values in zip(maps, arguments, strict=True):
                interval.low[part], interval.high[part] = values
            shown = np.all([argument.is_finite for argument in arguments], axis=0)
            with np.errstate(invalid="ignore"):
                range_of = self._combine(*arguments).within(self._together(sources, arguments, part)).where(shown)
            after.low[part], after.high[part] = range_of
        return after, maps

    def _gate_argument(self, sources: Interval, part: slice) -> Interval:
        """Returns the range of `a t + b`, in which a and b read the same numbers.

        While a and b are numbers, this can be infinite, but not NaN, and its sigmoid is known.
        """
        a, b = self.weights[2:, part]
        shown = np.all([affine(sources, self.weights[k, part], self.bias[k, part]).is_finite for k in (2, 3)], axis=0)
        if not np.isfinite(self.elapsed.high):
            return between(-INFINITE, INFINITE, len(b)).where(shown)
        ends = []
        for t in self.elapsed:  # a t + b is a straight line in t, with its extremes at the ends
            shift = t * self.bias[2, part] + self.bias[3, part]
            end = affine(sources, t * a + b, shift)
            size = (t * np.abs(a) + np.abs(b)) @ finite_size(sources) + np.abs(shift)
            ends.append(outward(*end, 2 * b.shape[1] + 4, size))
        return Interval(*np.clip(hull_of(*ends), -INFINITE, INFINITE)).where(shown)

    def _combine(self, z1: Interval, z2: Interval, gate: Interval) -> Interval:
        """Returns the range of h', which has its extremes at the ends of T1, T2 and s."""
        ends = vertices(TANH.values(z1), TANH.values(z2), sigmoid(gate))
        values = [T1 + s * (T2 - T1) if self.gated else T1 + s * T2 for T1, T2, s in ends]
        return outward(np.minimum.reduce(values), np.maximum.reduce(values), ROUNDINGS, 1.0)

    def _together(self, sources: Interval, maps: list[Interval], part: slice) -> Interval:
        """Returns the range of h' in which T1 and T2 read the same numbers, piece by piece of the range of a t + b.

        With lines `T = l z + e` and the middle c of a piece of s, h' is one sum over the sources and little besides::

            h' = (k l1 W1 + c l2 W2) x + k e1 + c e2 + (s - c) (T2 - T1),    k = 1 - c
        """
        z1, z2, gate = maps
        (line1, rest1), (line2, rest2) = tanh_line(z1), tanh_line(z2)
        T1, T2 = TANH.values(z1), TANH.values(z2)
        apart, by_piece = minus(T2, T1) if self.gated else T2, []
        for piece in pieces(gate, FEW):
            s = sigmoid(piece)
            c, k = s.middle, 1 - s.middle if self.gated else np.ones_like(s.low)
            lines = (k * line1)[:, None] * self.weights[0, part] + (c * line2)[:, None] * self.weights[1, part]
            shift = k * line1 * self.bias[0, part] + c * line2 * self.bias[1, part]
            rests = times(point(k), rest1), times(point(c), rest2), times(minus(s, point(c)), apart)
            by_piece.append(plus(affine(sources, lines, shift), *rests))
        whole = hull_of(*by_piece)
        return outward(*whole, 1, self._roundings(sources, part))

    def _roundings(self, sources: Interval, part: slice) -> Array:
        """Returns how many roundings of a number of size 1 the computed h' is off by at most.

        With z1 and z2, h' moves by at most as much, and with a t + b by at most half as much.
        """
        t = self.elapsed.high if np.isfinite(self.elapsed.high) else 0.0  # for any t, s is taken as anything
        weights, size = np.abs(self.weights[:, part]), finite_size(sources)
        z1, z2, a, b = (weights[k] @ size + np.abs(self.bias[k, part]) for k in range(4))
        count = weights.shape[2]  # a sum of n numbers rounds at most n times
        roundings: Array = (count + 1) * (z1 + z2) + (count + 2) * (t * a + b) + ROUNDINGS + 2 * FUNCTION_ROUNDINGS
        return roundings

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a step, found piece by piece of the range of `a t + b`."""
        return self._slopes(*self._step(states, features)[1])

    def held_slopes(self, states: Interval, features: Interval, slopes: Slopes | None) -> Slopes | None:
        """Returns the derivatives of a step in which the layers before a neuron's own are anywhere in `states`."""
        sources = joined(features, states)
        z1, z2 = (affine(sources, self.weights[k], self.bias[k]) for k in range(2))
        return self._slopes(z1, z2, self._gate_argument(sources, slice(None)))

    def _slopes(self, z1: Interval, z2: Interval, gate: Interval) -> Slopes | None:
        """Returns the derivatives of a step for ranges of z1, z2 and `a t + b`."""
        T1, T2 = TANH.values(z1), TANH.values(z2)
        steep1, steep2 = TANH.slopes(z1), TANH.slopes(z2)
        apart = minus(T2, T1) if self.gated else T2
        W1, W2, a, b = self.weights
        by_time = hull_of(*(point(product(t, a) + b) for t in self.elapsed))
        by_piece = []
        for piece in pieces(gate):
            s = sigmoid(piece)
            kept = minus(point(np.ones(self.size)), s) if self.gated else point(np.ones(self.size))
            by_gate = times(apart, sigmoid_slopes(piece))
            by_piece.append(
                plus(
                    rows_times(times(kept, steep1), W1), rows_times(times(s, steep2), W2), rows_times(by_gate, by_time)
                )
            )
        whole = hull_of(*by_piece)
        if not np.isfinite(whole.size).all():
            self.gap = "a synapse's slope has no bounds, because the elapsed time has none"
            return None
        return self.in_time(*split(whole, self.features))

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns `1 / |a|`, which reads the state before the step in all layers."""
        a = affine(joined(features, states), self.weights[2], self.bias[2])
        least = np.maximum(np.maximum(a.low, -a.high), 0.0)  # of |a|: 0 if a can be 0
        with np.errstate(divide="ignore"):
            constants = divide(point(np.ones(self.units)), Interval(least, a.size))
        return Interval(
            np.where(least > 0, constants.low, 1 / outward_size(a)), np.where(least > 0, constants.high, np.inf)
        )


def outward_size(values: Interval) -> Array:
    """Returns the greatest magnitude, widened by a rounding."""
    widened: Array = outward(values.size, values.size).high
    return widened
