"""What is known about the neurons that are driven by one nonlinearity: NeuralLTC, CT-RNN and Neural ODE."""

from __future__ import annotations

import numpy as np

from ncp_control.base.curves import CURVES, INFINITE, pieces
from ncp_control.base.intervals import (
    LARGEST,
    Array,
    Interval,
    add,
    affine,
    between,
    divide,
    finite_size,
    joined,
    multiply,
    outward,
    point,
    product,
)
from ncp_control.base.slopes import hull_of, minus, plus, rows_times, split, times, vertices, widened
from ncp_control.neurons import CTRNN, NeuralLTC, NeuralODE
from ncp_control.neurons.affine.neuron import ACTIVATIONS
from ncp_control.neurons.ranges import OVERFLOW, Elapsed, Known, Slopes, as_interval, numbers

ROUNDINGS = 16  # of a solver step
KEPT_ROUNDINGS = 8  # of 1 / (1 / tau + f); the room that a bounded cell leaves is for 41 of them
STALLED = 2.0**54  # a float64 sum stops growing before it is so many times as large as a step; a float32 one sooner
NEAR_TWO = 1e-3  # with h rate this close to 2, or above, rounding adds up without end over Euler steps


class KnownAffine(Known):
    """A NeuralLTC, a CT-RNN or a Neural ODE, solved by fused steps or by explicit Euler.

    With `h = elapsed / unfolds`, `f = act(z)`, `z = gamma_r x + gamma I + mu`, `drive = A f` and `rate = 1 / tau +
    liquid f`, or `1 / tau + |f|` of signed neurons, the steps are::

        fused:  x' = (x + h drive) / (1 + h rate)          euler:  x' = x + h (drive - rate x)

    While `rate > 0`, a fused step is a weighted mean of x and the target `m = drive / rate`, and so is an Euler step
    while `h rate <= 1`. With `1 < a = h rate < 2`, an Euler step jumps over the target: for targets in c - r to c + r,
    no state comes further from c than `max(|c|, r a / (2 - a))`.
    """

    def __init__(self, cell: NeuralLTC | CTRNN | NeuralODE, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        self.substeps, self.is_euler = cell.unfolds, cell.solver == "euler"
        self.liquid, self.signed = cell.liquid, cell.signed
        constants = cell.constants()
        recurrent, sensory = (numbers(weights.values).T for weights in (constants.gamma_r, constants.gamma))
        self.weights, self.own_weights = np.concatenate([sensory, recurrent], axis=1), np.diag(recurrent)
        self.mu = numbers(cell.mu)
        leak = np.broadcast_to(numbers(constants.leak), (self.units,))
        self.leaks = bool((leak > 0).all())
        self.leak = outward(leak, leak, 2) if self.leaks else point(leak)
        self.A = np.ones(self.units) if cell.A is None else numbers(cell.A)
        self.curve, self.activation = CURVES[cell.activation], cell.activation
        self.h = Interval(*(np.full(self.units, time / self.substeps) for time in elapsed))
        _, low, high = ACTIVATIONS[self.activation]
        self.kept = outward(*as_interval(cell.time_constant_bounds()), KEPT_ROUNDINGS) if cell.bounded else None
        self.stalls = not self.leaks and STALLED * elapsed.high * max(-low, high) < LARGEST

    def outer(self) -> Interval:
        """Returns bounds that hold whatever f is in the range of its activation."""
        _, low, high = ACTIVATIONS[self.activation]
        return self._around_targets(between(low, high, self.units)).hull(between(0.0, 0.0, self.units))

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the targets, or with longer Euler steps an interval that no state leaves."""
        f = self.curve.values(self._arguments(states, features))
        targets = self._around_targets(f)
        if self.leaks:
            targets = targets.where(self._fits(targets.hull(between(0.0, 0.0, self.units)), f))
        self.stays_finite = self.stalls and bool(f.is_finite.all())
        self.gap = None if targets.is_finite.all() else self._reason()
        return targets

    def _reason(self) -> str:
        """Returns why a state has no bounds."""
        if not self.leaks:
            return "the neurons have no leak, so that their states can grow without end"
        if self.activation == "relu":
            return "relu has no upper end, so that states which depend on each other can grow without end"
        if self.liquid and not self.signed and ACTIVATIONS[self.activation].low < 0:
            return f"{self.activation} can be negative, so that the rate 1 / tau + f of a slow neuron can be too"
        if not self.is_euler:
            return OVERFLOW
        return (
            'with solver="euler" a state can grow without end, because elapsed / unfolds is twice as long as the '
            "shortest time constant, or longer"
        )

    def _arguments(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of z, (N,)."""
        sources = joined(features, states)
        arguments = affine(sources, self.weights, self.mu)
        if self.stalls:  # an infinite end stands for a number
            farthest = np.minimum(sources.size, STALLED * self.h.high.max(initial=0.0))
            fits = np.abs(self.weights) @ farthest + np.abs(self.mu) <= LARGEST
            arguments = Interval(*np.clip(arguments, -INFINITE, INFINITE)).where(fits)
        return arguments

    def _fits(self, states: Interval, f: Interval) -> Array:
        """Whether no number of a step passes the largest one of float32, (N,)."""
        largest = product(np.abs(self.A), f.size) + product(self._rate(f).size, states.size)
        if self.is_euler:
            largest = product(np.maximum(self.h.high, 1.0), largest) + states.size
        return np.asarray(largest <= LARGEST)

    def _speed(self, f: Interval) -> Interval:
        """Returns the range of what f adds to the rate: f, or |f| of signed neurons."""
        if not self.signed:
            return f
        least = np.where((f.low <= 0) & (f.high >= 0), 0.0, np.minimum(np.abs(f.low), np.abs(f.high)))
        return Interval(least, f.size)

    def _rate(self, f: Interval) -> Interval:
        return add(self.leak, self._speed(f)) if self.liquid else self.leak

    def _around_targets(self, f: Interval) -> Interval:
        """Returns the range of the targets for f in a range, widened where Euler steps jump over them."""
        if not self.leaks:
            return Interval(np.where(f.low >= 0, 0.0, -np.inf), np.where(f.high <= 0, 0.0, np.inf))
        # A target rises or falls with f everywhere, so its range lies between those of both ends of f.
        targets = hull_of(*(self._target(end) for end in f))
        gain = multiply(self.h, self._rate(f)).high if self.is_euler else np.zeros(self.units)
        longest = np.minimum(np.maximum(gain, 1.0), 2.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            center, radius = targets.middle, targets.width / 2
            first = np.maximum(np.abs(center), radius * longest / (2 - longest))
            # Every Euler step rounds, too, and jumping over the target adds that up like a wider target.
            lost = outward(0.0, 0.0, 2 * ROUNDINGS, np.abs(center) + first).high
            radius = np.maximum(first, (radius * longest + lost) / (2 - longest))
            wider = outward(center - radius, center + radius, ROUNDINGS, np.abs(center) + radius)
        plain = outward(*targets, ROUNDINGS, finite_size(targets))
        shown = (self._rate(f).low > 0) & (gain < 2 - NEAR_TWO) & (np.isfinite(targets.width) | (gain <= 1))
        shown &= np.isfinite(f.low)
        low, high = (np.where(gain > 1, wide, narrow) for wide, narrow in zip(wider, plain, strict=True))
        return Interval(low, high).where(shown)

    def _target(self, f: Array) -> Interval:
        """Returns the target `A f / (1 / tau + liquid f)`, which is A for an infinite f of a liquid neuron."""
        target = divide(multiply(point(self.A), point(f)), self._rate(point(f)))
        if not self.liquid:
            return target
        return Interval(*(np.where(np.isinf(f), self.A, end) for end in target))

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of a step, which has its extremes at the ends of x, f and h, and of |f| also at f = 0."""
        f = self.curve.values(self._arguments(states, features))
        corners = [self._step(*corner) for corner in vertices(states, f, self.h, self.leak)]
        if self.signed:
            nearest = point(np.clip(0.0, f.low, f.high))
            corners += [self._step(*corner) for corner in vertices(states, nearest, self.h, self.leak)]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        # The finite ends alone: one end can have a bound where the other one has none.
        size = finite_size(Interval(low, high)) + finite_size(states)
        if self.is_euler:
            size = size + product(product(self.h.high, finite_size(self._rate(f))), finite_size(states))
        moved = outward(low, high, ROUNDINGS, size)
        fits = self._fits(states, f) if self.leaks else np.ones(self.units, dtype=bool)
        return moved.where((self._divisor(f).low > 0) & ~np.isnan(low) & fits)

    def _step(self, x: Array, f: Array, h: Array, leak: Array) -> Array:
        """Returns x' for numbers, (N,)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            drive, rate = product(self.A, f), leak
            if self.liquid:
                rate = rate + (np.abs(f) if self.signed else f)
            if self.is_euler:
                after = x + product(h, drive - product(rate, x))
            else:
                s, r = self._span(h)
                after = (product(r, x) + product(s, drive)) / (r + s * rate)
                if self.liquid:  # the limit for an endless f, whose quotient is NaN
                    after = np.where(np.isinf(f) & (s > 0), self.A, after)
        return after

    def _divisor(self, f: Interval) -> Interval:
        """Returns `r + s rate` of a fused step with `h = s / r`, which must be positive; 1 for Euler."""
        if self.is_euler:
            return between(1.0, 1.0, self.units)
        rate = self._rate(f)
        parts = [self._span(h) for h in self.h]
        ends = [r + product(s, end) for s, r in parts for end in rate]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    @staticmethod
    def _span(h: Array) -> tuple[Array, Array]:
        """Returns s and r, neither above 1, with `h = s / r`: so a long or endless h makes no product infinite."""
        return np.minimum(h, 1.0), 1 / np.maximum(h, 1.0)

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a step, of which the part through z is found piece by piece of the range of z."""
        arguments = self._arguments(states, features)
        by_z, own = [], []
        for piece in pieces(arguments):
            f = self.curve.values(piece)
            through, kept = self._by_f_and_own(states, f)
            by_z.append(times(through, self.curve.slopes(piece)))
            own.append(plus(kept, times(by_z[-1], point(self.own_weights))))
        by_sources = rows_times(hull_of(*by_z), self.weights)
        inputs, before = split(by_sources, self.features)
        for end, values in zip(before, hull_of(*own), strict=True):
            np.fill_diagonal(end, values)
        if not np.isfinite(before.size).all() or not np.isfinite(inputs.size).all():
            return None
        return Slopes(point(np.zeros((self.size, self.size))), before, inputs)

    def _by_f_and_own(self, states: Interval, f: Interval) -> tuple[Interval, Interval]:
        """Returns the derivatives of a step by f, and by the neuron's own state with f held.

        fused:  dx'/df = h (A - liquid x') / (1 + h rate),   dx'/dx = 1 / (1 + h rate)
        euler:  dx'/df = h (A - liquid x),                   dx'/dx = 1 - h rate

        Of signed neurons, `sign(f)` times the state takes the state's place in the derivatives by f.
        """
        states = self._with_sign(states, f)
        f = self._speed(f)
        rate = plus(self.leak, f) if self.liquid else self.leak
        if self.is_euler:
            to_end = minus(point(self.A), states) if self.liquid else point(self.A)
            return times(self.h, to_end), minus(point(np.ones(self.units)), times(self.h, rate))
        corners = []
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            for h, x, speed, leak in vertices(self.h, states, f, self.leak):
                s, r = self._span(h)
                divisor = r + s * (leak + speed) if self.liquid else r + s * leak
                # The last is A - x', in a form from whose numerator f is gone: its bounds are tight.
                corners.append((s / divisor, r / divisor, (self.A * (r + product(s, leak)) - product(r, x)) / divisor))
            low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        shown, known = self._divisor(f).low > 0, ~np.isnan(low[2])
        size = np.abs(self.A) + finite_size(states)
        gain, kept = widened(low[0], high[0]), widened(low[1], high[1])
        by_f = times(gain, widened(low[2], high[2], size).where(known)) if self.liquid else gain
        return by_f.where(shown), kept.where(shown)

    def _with_sign(self, states: Interval, f: Interval) -> Interval:
        """Returns the range of `sign(f) x` of signed neurons, and of x of the others."""
        if not self.signed:
            return states
        low = np.where(f.low >= 0, states.low, np.where(f.high <= 0, -states.high, -states.size))
        high = np.where(f.low >= 0, states.high, np.where(f.high <= 0, -states.low, states.size))
        return Interval(low, high)

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns `1 / rate`."""
        if not self.leaks:
            return between(np.inf, np.inf, self.units)
        rate = self._rate(self.curve.values(self._arguments(states, features)))
        constants = divide(point(np.ones(self.units)), rate)
        return constants.within(self.kept) if self.kept else constants
