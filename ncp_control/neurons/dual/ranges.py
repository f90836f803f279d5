"""What is known about a DualLTC: its layers move one after another, and no neuron swings for long by itself."""

from __future__ import annotations

import numpy as np

from ncp_control.base.curves import pieces, sigmoid_slopes, tanh_slopes
from ncp_control.base.intervals import (
    FUNCTION_ROUNDINGS,
    LEAST,
    SLACK,
    Array,
    Interval,
    affine,
    between,
    exactly,
    finite_size,
    joined,
    outward,
    point,
    product,
    sigmoid,
    sigmoid_of,
    tanh,
)
from ncp_control.base.slopes import hull_of, minus, plus, rows_times, split, times, vertices, widened
from ncp_control.neurons import DualLTC
from ncp_control.neurons.layered.ranges import ROUNDINGS, KnownLayered
from ncp_control.neurons.ranges import Bent, Elapsed, Slopes, as_interval, numbers

HALVINGS = 60  # 2 / 2^60 is below what float64 resolves near 1


class KnownDual(KnownLayered):
    """A DualLTC. With linear maps f and g of what a neuron reads, its brake b and the time t elapsed::

        x' = k x + (1 - k) m,    m = tanh(z),    z = f - b x,    k = exp(-p),    p = t / tau

        dx' = k dx + (1 - k) (1 - m^2) dz + (x - m) p k (low - high) s (1 - s) dg,    s = sigmoid(g)

    with `log tau = s low + (1 - s) high`. A neuron reads the present state of the layers before its own, and the former
    state of its own layer and of those behind it. Its own state enters z with -b, and with the weight a of a synapse to
    itself if it has one. Where a > b, z rises with x, and nothing is lost if that part counts as one more source.
    """

    def __init__(self, cell: DualLTC, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        raw = cell.brake_raw
        brake = np.diag(np.zeros(self.units) if raw is None else cell.strongest_brake * sigmoid_of(numbers(raw)))
        self.sizes = np.abs(self.weights[0])
        self.sizes[:, self.features :] += brake  # as the code adds them up
        self.weights[0, :, self.features :] -= brake
        self.own = [np.diag(by_state) for by_state in self.weights[:, :, self.features :]]
        self.falls = np.minimum(self.own[0], 0.0)
        self.maps = self.weights.copy()
        self.maps[0, :, self.features :] -= np.diag(self.falls)
        self.log_tau = cell.index_arrays["log_tau"]
        self.limits = outward(*as_interval(cell.time_constant_bounds()), ROUNDINGS)

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of what a neuron moves towards, and of where it can jump to from beyond.

        With `z = r + a x` and a <= 0, x comes to rest where `x = tanh(r + a x)`, and moves down from above. A step from
        below can end above. Rounding can lift a state in every step, until it is so far above the place of rest that it
        moves down by as much; where k can be 1, it never does.
        """
        rest, g = self._maps(joined(features, states), slice(None))
        kept = self._kept(g)
        low, high = self._resting(rest)
        from_below = self._step(Interval(np.minimum(states.low, high), high), rest, kept, self.falls)
        from_above = self._step(Interval(low, np.maximum(states.high, low)), rest, kept, self.falls)
        lost = outward(0.0, 0.0, 2, 1.0).high
        with np.errstate(divide="ignore"):
            lifted = lost / (1 - kept.high)
        moved = Interval(np.minimum(low - lifted, from_above.low), np.maximum(high + lifted, from_below.high))
        return moved.within(self.outer()).where(rest.is_finite & g.is_finite)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the next state."""
        return self._layers(states, features)[0]

    def _layers(self, states: Interval, features: Interval) -> tuple[Interval, Interval, Interval]:
        """Returns the ranges of the next state, of z without what falls with x, and of g, layer by layer."""
        after = Interval(states.low.copy(), states.high.copy())
        every_rest, every_g = (Interval(np.empty(self.size), np.empty(self.size)) for _ in range(2))
        for part in self.parts:
            rest, g = self._maps(joined(features, after), part)
            before = states.at(part)
            moved = self._step(before, rest, self._kept(g), self.falls[part])
            moved = moved.where(rest.is_finite & g.is_finite & before.is_finite)
            for whole, values in zip((after, every_rest, every_g), (moved, rest, g), strict=True):
                whole.low[part], whole.high[part] = values
        return after, every_rest, every_g

    def _maps(self, sources: Interval, part: slice) -> tuple[Interval, Interval]:
        """Returns the ranges of z, without what falls with x, and of g, of the neurons in `part`."""
        weights, bias = self.maps[:, part], self.bias[:, part]
        rest, g = (affine(sources, *map_and_bias) for map_and_bias in zip(weights, bias, strict=True))
        size = self.sizes[part] @ finite_size(sources) + np.abs(bias[0])
        return outward(*rest, np.count_nonzero(weights[0], axis=1) + 3 + FUNCTION_ROUNDINGS, size), g

    def _time_constants(self, g: Interval) -> Interval:
        """Returns the range of tau, which falls while g rises; it is within its limits even where g has no range."""
        (low, high), s = self.log_tau, sigmoid(g).within(between(0.0, 1.0, g.shape))
        shortest, longest = (high + (low - high) * end for end in (s.high, s.low))
        logarithm = outward(shortest, longest, 5, abs(low) + abs(high))
        constants = outward(np.exp(logarithm.low), np.exp(logarithm.high), FUNCTION_ROUNDINGS)
        return constants.within(self.limits.at(0))

    def _power(self, g: Interval) -> Interval:
        """Returns the range of p."""
        tau = outward(*self._time_constants(g), 4)
        return Interval(self.elapsed.low / tau.high, self.elapsed.high / tau.low)

    def _kept(self, g: Interval) -> Interval:
        """Returns the range of k."""
        power = self._power(g)
        kept = outward(np.exp(-power.high), np.exp(-power.low), FUNCTION_ROUNDINGS)
        return kept.within(between(0.0, 1.0, g.shape))

    @staticmethod
    def _step(x: Interval, rest: Interval, kept: Interval, falls: Array) -> Interval:
        """Returns the range of `k x + (1 - k) tanh(r + a x)` with a <= 0.

        It rises with r, and is a straight line in k; in x it has its extremes at the ends, and where it is level.
        """
        values = []
        for r, k in vertices(rest, kept):
            with np.errstate(divide="ignore", invalid="ignore"):
                steep = np.nan_to_num(k / (falls * (k - 1)), nan=1.0)  # 1 - m^2 where it is level
                # 1 itself would have an infinite arctanh.
                to_level = np.arctanh(np.sqrt(np.clip(1 - steep, 0.0, 1 - 1e-16)))
                level = [np.nan_to_num((end - r) / falls) for end in (to_level, -to_level)]
                for at in (*x, *(np.clip(place, *x) for place in level)):
                    values.append(k * at + (1 - k) * np.tanh(r + falls * at))
        size = np.maximum(1.0, finite_size(x))
        return outward(np.minimum.reduce(values), np.maximum.reduce(values), ROUNDINGS + FUNCTION_ROUNDINGS, size)

    def _resting(self, rest: Interval) -> Interval:
        """Returns the range of the x with `x = tanh(r + a x)`, of which there is one for each r, as a <= 0."""
        bounds = between(-1.0, 1.0, rest.shape)
        ends = []
        for r in np.clip(rest, -1e30, 1e30):
            low, high = bounds
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                is_below = np.tanh(r + self.falls * middle) > middle
                low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
            ends.append((low, high))
        return outward(ends[0][0], ends[1][1], FUNCTION_ROUNDINGS, 1.0)

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a step, found piece by piece of the range of g."""
        _, rest, g = self._layers(states, features)
        return self._slopes(states, rest, g)

    def held_slopes(self, states: Interval, features: Interval, slopes: Slopes | None) -> Slopes | None:
        """Returns the derivatives of a step in which the layers before a neuron's own are anywhere in `states`."""
        return self._slopes(states, *self._maps(joined(features, states), slice(None)))

    def _slopes(self, states: Interval, rest: Interval, g: Interval) -> Slopes | None:
        """Returns the derivatives of a step for ranges of z, without what falls with x, and of g."""
        z = plus(rest, times(point(self.falls), states))
        steep, apart = tanh_slopes(z), minus(states, tanh(z))
        to_f, to_g = self.own
        by_piece, own = [], []
        with exactly():  # or a slow neuron, whose k is near 1, would not be seen to forget
            for piece in pieces(g):
                power, kept = self._power(piece), self._kept(piece)
                left = minus(point(np.ones(self.size)), kept)
                by_log_tau = times(apart, humps(power))
                by_g = times(by_log_tau, times(point(self.log_tau[0] - self.log_tau[1]), sigmoid_slopes(piece)))
                by_piece.append(
                    plus(rows_times(times(left, steep), self.weights[0]), rows_times(by_g, self.weights[1]))
                )
                # k and 1 - k move together: bounds of each alone would be too wide.
                corners = [k + (1 - k) * to_f * slope for k, slope in vertices(kept, steep)]
                alone = widened(np.minimum.reduce(corners), np.maximum.reduce(corners))
                own.append(plus(alone, times(by_g, point(to_g))))
        inputs, among = split(hull_of(*by_piece), self.features)
        for end, values in zip(among, hull_of(*own), strict=True):
            np.fill_diagonal(end, values)
        if not np.isfinite(inputs.size).all() or not np.isfinite(among.size).all():
            return None
        return self.in_time(inputs, among)

    def bent(self, part: slice) -> Bent:
        """Returns a layer's step as a function of its state, z and g."""
        return BentDual(self, part)

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of tau, which reads the state before the step in all layers."""
        g = self._maps(joined(features, states), slice(None))[1]
        return self._time_constants(g).where(g.is_finite)


class BentDual(Bent):
    """A layer of a DualLTC as a function of d = x - z, z and g, which are linear in what it reads.

    With `x' = k d + k z + (1 - k) m`, whatever depends on both k and another number has the factor d + z - m. That is
    small where neurons follow what drives them, even if both range far.
    """

    def __init__(self, known: KnownDual, part: slice) -> None:
        self.known = known
        own = np.eye(known.size, known.features + known.size, known.features)
        (by_z, by_g), (z, g) = known.weights, known.bias
        self.weights = np.stack([own - by_z, by_z, by_g])[:, part]
        self.bias = np.stack([-z, z, g])[:, part]
        self.sizes = np.stack([own + known.sizes, known.sizes, np.abs(by_g)])[:, part]

    def values(self, numbers: list[Interval]) -> Interval:
        """Returns the range of the next states."""
        d, z, g = numbers
        return self.known._step(plus(d, z), z, self.known._kept(g), np.zeros(z.shape[-1]))

    def slopes(self, numbers: list[Interval]) -> list[Interval]:
        """Returns k, `k + (1 - k) (1 - m^2)`, and what g moves."""
        d, z, g = numbers
        with exactly():
            kept, power = self.known._kept(g), self.known._power(g)
            by_z = widened(*(k + (1 - k) * steep for k, steep in zip(kept, tanh_slopes(z), strict=True)))
            beyond = widened(*(end - np.tanh(end) for end in z))  # rises with z
            rounded = 2.0**-50 * z.size
            apart = plus(d, Interval(beyond.low - rounded, beyond.high + rounded))
            by_log_tau = times(apart, humps(power))
        low, high = self.known.log_tau
        return [kept, by_z, times(by_log_tau, times(point(np.full(g.shape, low - high)), sigmoid_slopes(g)))]

    def strays(self, numbers: list[Interval], sizes: Array) -> Array:
        """Returns how far a step in float32 can be from the exact one.

        An error d of g moves log tau by a quarter of its span times d at most, and k by 1 / e of that, because p k is
        never more; an error of z moves m by as much at most.
        """
        low, high = self.known.log_tau
        terms = np.count_nonzero(self.weights, axis=2) + 4 + FUNCTION_ROUNDINGS
        off = terms * SLACK * sizes
        rounded = SLACK * FUNCTION_ROUNDINGS
        pace = (high - low) * (0.25 * off[..., 2, :] + 2 * rounded) + 5 * SLACK * (abs(low) + abs(high)) + 2 * rounded
        kept = 0.5 * pace + rounded  # 1 / e, with room for what is not linear in an error of .2 at most
        reach = 1 + finite_size(numbers[0]) + finite_size(numbers[1])
        moved = reach * kept + off[..., 1, :] + rounded + (ROUNDINGS + FUNCTION_ROUNDINGS) * SLACK * reach
        return np.where(pace < 0.2, moved, 2.0) * 1.01 + 2 * LEAST


def humps(power: Interval) -> Interval:
    """Returns the range of `p exp(-p)`, which rises until p is 1, and falls to zero."""
    *ends, top = (product(p, np.exp(-p)) for p in (*power, np.clip(1.0, *power)))
    return widened(np.minimum(*ends), top)
