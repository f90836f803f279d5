"""What is known about an LSTM and a GRU."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ncp_control.base.curves import pieces, sigmoid_slopes, tanh_slopes
from ncp_control.base.intervals import (
    FUNCTION_ROUNDINGS,
    Interval,
    add,
    affine,
    between,
    finite_size,
    joined,
    multiply,
    outward,
    point,
    sigmoid,
    tanh,
)
from ncp_control.base.slopes import hull_of, minus, plus, rows_times, split, times, vertices
from ncp_control.neurons import GRU, LSTM
from ncp_control.neurons.ranges import Elapsed, Known, Slopes, numbers

ROUNDINGS = 8  # of a step behind the gates
STALLED = 2.0**54  # a float64 sum of numbers up to 1 stops growing before it is so large; a float32 one sooner
TOO_LONG = 8e37  # a time constant above this may be infinity in float32


class KnownGated(Known):
    """A cell with gates, each a map of the inputs and the neurons: `W_ih x + b_ih + W_hh h + b_hh`."""

    def __init__(self, cell: LSTM | GRU, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        sensory, recurrent = (
            numbers(weight).reshape(cell.gates, self.units, -1) for weight in (cell.weight_ih, cell.weight_hh)
        )
        self.sensory, self.recurrent = sensory, recurrent
        self.weights = np.concatenate([sensory, recurrent], axis=2)
        self.sensory_bias, self.recurrent_bias = (
            numbers(bias).reshape(cell.gates, self.units) for bias in (cell.bias_ih, cell.bias_hh)
        )

    def _map(self, gate: int, neurons: Interval, features: Interval) -> Interval:
        """Returns the range of a gate's map."""
        sources = joined(features, neurons)
        sensory, recurrent = self.sensory_bias[gate], self.recurrent_bias[gate]
        mapped = affine(sources, self.weights[gate], sensory + recurrent)
        # The code adds the two biases one after the other.
        return outward(*mapped, 2, np.abs(sensory) + np.abs(recurrent))

    @abstractmethod
    def _decay(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the map of the gate that keeps the state."""

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns `-1 / ln(sigmoid(z))`, which rises with the map z of the gate."""
        rates = (np.logaddexp(0.0, -end) for end in self._decay(states, features))
        # A rate of 0 would be divided by; what is slower than this becomes infinite below.
        low, high = (1 / np.maximum(rate, 0.5 / TOO_LONG) for rate in rates)
        constants = outward(low, high, FUNCTION_ROUNDINGS)
        return Interval(
            np.minimum(constants.low, TOO_LONG), np.where(constants.high > TOO_LONG, np.inf, constants.high)
        )


class KnownGRU(KnownGated):
    """A GRU: `h' = (1 - z) n + z h` is a weighted mean of h and `n = tanh(W x + b + r m)`, with `m = W_hn h + b_hn`.

    Its derivatives are::

        dh' = (1 - z) (1 - n^2) (d(W x) + r dm + m r (1 - r) dr) + (h - n) z (1 - z) dz + z dh
    """

    def outer(self) -> Interval:
        """Returns [-1, 1], widened by rounding."""
        return outward(*between(-1.0, 1.0, self.size), ROUNDINGS)

    def _decay(self, states: Interval, features: Interval) -> Interval:
        return self._map(1, states, features)

    def _candidate(self, states: Interval, features: Interval) -> tuple[Interval, Interval, Interval]:
        """Returns the ranges of the maps of r and m, and of the argument of n."""
        reset = self._map(0, states, features)
        recurrent = affine(states, self.recurrent[2], self.recurrent_bias[2])
        direct = affine(features, self.sensory[2], self.sensory_bias[2])
        return reset, recurrent, add(direct, multiply(sigmoid(reset), recurrent))

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of n."""
        candidate, kept_is_finite = tanh(self._candidate(states, features)[2]), self._decay(states, features).is_finite
        return outward(*candidate, ROUNDINGS, finite_size(candidate)).where(candidate.is_finite & kept_is_finite)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of a step, which has its extremes at the ends of h, n and z."""
        n, z = tanh(self._candidate(states, features)[2]), sigmoid(self._decay(states, features))
        with np.errstate(invalid="ignore"):
            values = [candidate + keep * (h - candidate) for h, candidate, keep in vertices(states, n, z)]
        size, shown = np.maximum(states.size, n.size), states.is_finite & n.is_finite & z.is_finite
        return outward(np.minimum.reduce(values), np.maximum.reduce(values), ROUNDINGS, size).where(shown)

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a step, found piece by piece of the range of the map of z."""
        reset, m, argument = self._candidate(states, features)
        r, n, steep = sigmoid(reset), tanh(argument), tanh_slopes(argument)
        only_sensory = np.concatenate([self.sensory[2], np.zeros((self.units, self.units))], axis=1)
        only_recurrent = np.concatenate([np.zeros((self.units, self.features)), self.recurrent[2]], axis=1)
        inside = plus(
            point(only_sensory),
            rows_times(r, only_recurrent),
            rows_times(times(m, sigmoid_slopes(reset)), self.weights[0]),
        )
        # z lies between 0 and 1 and occurs in every term, so short pieces of its range tell far more than the whole.
        apart, by_piece = minus(states, n), []
        own = np.concatenate([np.zeros((self.units, self.features)), np.eye(self.units)], axis=1)
        for piece in pieces(self._decay(states, features)):
            z = sigmoid(piece)
            moved = times(minus(point(np.ones(self.units)), z), steep)
            by_piece.append(
                plus(
                    rows_times(moved, inside),
                    rows_times(times(apart, sigmoid_slopes(piece)), self.weights[1]),
                    rows_times(z, own),
                )
            )
        inputs, before = split(hull_of(*by_piece), self.features)
        return Slopes(point(np.zeros((self.size, self.size))), before, inputs)


class KnownLSTM(KnownGated):
    """An LSTM, whose state is [h, c]: `c' = f c + i g` and `h' = o tanh(c')`::

        dc' = f dc + c f (1 - f) df + g i (1 - i) di + i (1 - g^2) dg
        dh' = o (1 - tanh(c')^2) dc' + tanh(c') o (1 - o) do

    with f, i and o for the sigmoids and g for the tanh of their maps. While f stays below F < 1 and `i g` in
    [low, high], c stays between `min(low, 0) / (1 - F)` and `max(high, 0) / (1 - F)`. Where F is 1 it has no such
    range, but as it grows by at most 1 in a step, it stops growing before it overflows.
    """

    def outer(self) -> Interval:
        """Returns [-1, 1] for h, widened by rounding, and infinite bounds for c."""
        h = outward(*between(-1.0, 1.0, self.units), ROUNDINGS)
        c = between(-np.inf, np.inf, self.units)
        return joined(h, c)

    def _decay(self, states: Interval, features: Interval) -> Interval:
        return self._map(1, self._h(states), features)

    def _h(self, states: Interval) -> Interval:
        return states.at(slice(self.units))

    def _written(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of `i g`."""
        i, g = sigmoid(self._map(0, self._h(states), features)), tanh(self._map(2, self._h(states), features))
        return multiply(i, g)

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the limits of c, and the range of h while c is between them."""
        written, kept = self._written(states, features), sigmoid(self._decay(states, features))
        # As much as a step surely takes away of c: rounded down, because it is divided by.
        left = 1 - outward(kept.high, kept.high, 2).high
        shown, numbers = (left > 0) & written.is_finite, written.is_finite & kept.is_finite
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.minimum(written.low, 0.0) / left, np.maximum(written.high, 0.0) / left
        size = np.where(shown, np.maximum(-low, high) / np.where(shown, left, 1.0), 0.0)
        c = outward(np.where(shown, low, -np.inf), np.where(shown, high, np.inf), ROUNDINGS, size)
        self.stays_finite = bool(numbers.all())
        self.gap = None if shown.all() else "the memory c of an LSTM can grow with every step where a forget gate opens"
        ends = c.within(between(-STALLED, STALLED, self.units)).where(numbers)
        return joined(self._output(ends, states, features), c)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of a step."""
        c = self._memory(states, features)
        return joined(self._output(c, states, features), c)

    def _memory(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of c'."""
        kept = multiply(sigmoid(self._decay(states, features)), states.at(slice(self.units, None)))
        return add(kept, self._written(states, features))

    def _output(self, c: Interval, states: Interval, features: Interval) -> Interval:
        """Returns the range of h' for that of c'."""
        return multiply(sigmoid(self._map(3, self._h(states), features)), tanh(c))

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a step; None if c has no bounds."""
        after = self._memory(states, features)
        if not np.isfinite(after.size).all():
            return None
        gates = [self._map(gate, self._h(states), features) for gate in range(4)]
        i, f, o = (sigmoid(gates[k]) for k in (0, 1, 3))
        c, g = states.at(slice(self.units, None)), tanh(gates[2])
        by_gates = plus(
            rows_times(times(c, sigmoid_slopes(gates[1])), self.weights[1]),
            rows_times(times(g, sigmoid_slopes(gates[0])), self.weights[0]),
            rows_times(times(i, tanh_slopes(gates[2])), self.weights[2]),
        )
        through = times(o, tanh_slopes(after))
        by_output = rows_times(times(tanh(after), sigmoid_slopes(gates[3])), self.weights[3])
        h_inputs, h_before = split(plus(rows_times(through, by_gates), by_output), self.features)
        c_inputs, c_before = split(by_gates, self.features)
        eye = np.eye(self.units)
        blocks = [[h_before, rows_times(times(through, f), eye)], [c_before, rows_times(f, eye)]]
        before = Interval(*(np.block([[block[end] for block in row] for row in blocks]) for end in range(2)))
        return Slopes(point(np.zeros((self.size, self.size))), before, joined(h_inputs, c_inputs))
