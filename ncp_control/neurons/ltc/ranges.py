"""What is known about an LTC: each state is a weighted mean, and every synapse's slope follows from its conductance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.intervals import (
    LARGEST,
    Array,
    IntArray,
    Interval,
    add,
    between,
    divide,
    multiply,
    outward,
    point,
    product,
    sigmoid,
    subtract,
)
from ncp_control.neurons import LTC
from ncp_control.neurons.ranges import Elapsed, Known, Slopes, as_interval, numbers


@dataclass(frozen=True, eq=False)
class Incoming:
    """The K sensory synapses and synapses into each neuron, (N, K); rows with fewer end in absent ones.

    :param count: how many synapses each neuron has, (N,)
    :param exists: whether there is a synapse
    :param source: its source: an input, or I plus the number of a neuron
    :param w: the maximal conductance; 0 for an absent synapse
    :param mu: the source's value at which it is half open
    :param sigma: how steeply it opens
    :param E: the reversal potential
    :param place: its number, in the sensory synapses followed by the others
    :param inputs: number of inputs I
    """

    count: IntArray
    exists: NDArray[np.bool_]
    source: IntArray
    w: Array
    mu: Array
    sigma: Array
    E: Array
    place: IntArray
    inputs: int

    @classmethod
    def of(cls, cell: LTC, w: Array, sensory_w: Array) -> Incoming:
        """Returns the synapses of a cell."""
        target = np.concatenate([numbers(cell.sensory_target), numbers(cell.target)]).astype(np.int64)
        source = np.concatenate([numbers(cell.sensory_source), numbers(cell.source) + cell.inputs]).astype(np.int64)
        values = [
            np.concatenate([sensory_w, w]),
            *(
                np.concatenate([numbers(of_inputs), numbers(of_neurons)])
                for of_inputs, of_neurons in (
                    (cell.sensory_mu, cell.mu),
                    (cell.sensory_sigma, cell.sigma),
                    (cell.sensory_E, cell.E),
                )
            ),
        ]
        count = np.bincount(target, minlength=cell.units)
        order = np.argsort(target, kind="stable")
        # Sorted by target, each synapse has the place in its row that it has among those of its target.
        column = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
        shape = cell.units, int(count.max(initial=0))

        def table(synapse_values: NDArray[np.generic]) -> NDArray[np.generic]:
            rows = np.zeros(shape, dtype=synapse_values.dtype)
            rows[target[order], column] = synapse_values[order]
            return rows

        exists = table(np.ones(len(target), dtype=bool))
        return cls(count, exists, table(source), *map(table, values), table(np.arange(len(target))), cell.inputs)  # type: ignore[arg-type, call-arg]

    def gather(self, inputs: Interval, states: Interval) -> Interval:
        """Returns what each synapse's source can be, (N, K)."""
        low, high = (np.concatenate(pair) for pair in zip(inputs, states, strict=True))
        return Interval(low[self.source], high[self.source])

    def spread(self, slopes: Interval, before: Array, inputs: Array) -> None:
        """Adds the slopes of the synapses (N, K) to those by neurons (2, N, N) and by inputs (2, N, I)."""
        row = np.broadcast_to(np.arange(len(self.count))[:, None], self.source.shape)
        sensory = self.exists & (self.source < self.inputs)
        among = self.exists & (self.source >= self.inputs)
        for end, values in enumerate(slopes):
            inputs[end][row[sensory], self.source[sensory]] += values[sensory]
            before[end][row[among], self.source[among] - self.inputs] += values[among]


def mean_range(opened: Interval, E: Array, fixed: Interval, slow: Array) -> Interval:
    """Returns the least and the greatest `(fixed + sum_i a_i E_i) / (slow + sum_i a_i)` over all a_i in their ranges.

    A mean rises with a_i if E_i lies above it. So the greatest mean has the a_i of the largest E at their upper ends
    and the others at their lower ends; every border between the two groups is tried.

    :param opened: the ranges of the conductances a, (R, K)
    :param E: the reversal potentials, (R, K)
    :param fixed: the range of the current that does not depend on a, (R,)
    :param slow: the conductance that is always open, positive, (R,)
    :return: (R,)
    """
    order = np.argsort(E, axis=1)
    low, high, E = (np.take_along_axis(values, order, axis=1) for values in (opened.low, opened.high, E))

    def extreme(low: Array, high: Array, E: Array, current: Array) -> Array:
        """Returns the mean for every border: the first k conductances are at `high`, the others at `low`."""
        step, start = (high - low).cumsum(axis=1), low.sum(axis=1)
        carried = ((high - low) * E).cumsum(axis=1)
        zero = np.zeros((len(E), 1))
        above = (current + (low * E).sum(axis=1))[:, None] + np.concatenate([zero, carried], axis=1)
        below = (slow + start)[:, None] + np.concatenate([zero, step], axis=1)
        means: Array = above / below
        return means

    least = extreme(low, high, E, fixed.low).min(axis=1)
    greatest = extreme(low[:, ::-1], high[:, ::-1], E[:, ::-1], fixed.high).max(axis=1)
    return Interval(least, greatest)


PIECES = 16  # the range of a sigmoid is cut into so many, because over a short piece the bound of its slope is tight
UP = 1 + 1e-9  # covers the rounding of slopes, which are computed in float64
CAPACITANCE_ROUNDINGS = 4  # of a capacitance, besides those of the sum that a bounded neuron computes it from
DOUBLED = 30  # bounds behind gap junctions are widened at most so often, twice as far each time


class KnownLTC(Known):
    """An LTC, solved by fused steps or by explicit Euler with steps short enough.

    With `c = cm unfolds / elapsed`, conductances `a_i = w_i s_i` and their sum `G`, a fused step is::

        v' = (c v + leak + sum_i a_i E_i + sum_k g_k v_k) / (c + G)

    so v' lies between v and the weighted mean `m = (leak + sum a_i E_i + sum g_k v_k) / G`, whose least and greatest
    values are found exactly by `mean_range`. With `R = c + G - a_i` and the mean `m_i` of all but synapse i, v among
    them, the slope by the synapse's source is::

        dv'/dv_i = sigma_i (1 - s_i) (E_i - m_i) R a_i / (R + a_i)^2 = sigma_i (1 - s_i) (E_i - v') a_i / (R + a_i)
    """

    def __init__(self, cell: LTC, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        self.substeps = cell.unfolds
        constants = cell.constants()
        self.slow, self.leak, self.cm, gap = (numbers(constants[k]) for k in (0, 1, 2, 5))
        self.gleak = numbers(cell.gleak)
        self.scale, self.shift = cell.input_scale, cell.input_shift
        self.incoming = Incoming.of(cell, numbers(constants.w), numbers(constants.sensory_w))
        ends = numbers(cell.gap_ends).astype(int).reshape(-1, 2)
        self.gap_target, self.gap_source = np.concatenate([ends, ends[:, ::-1]]).T
        self.gap_conductance = np.concatenate([gap, gap])
        with np.errstate(divide="ignore"):  # no time has passed if c is infinite: the state stays
            self.c = Interval(*(self.cm * self.substeps / np.float64(time) for time in (elapsed.high, elapsed.low)))
        self.bounds = as_interval(cell.state_bounds())
        self.is_euler = cell.solver == "euler"
        if self.is_euler and not self._short_enough():
            self.gap = (
                'with solver="euler" a neuron can overshoot in a step, because elapsed / unfolds is longer than its '
                "shortest time constant"
            )
        if not self._fits():
            self.gap = "a sum of conductances or of currents can pass the largest number of float32"

    def _short_enough(self) -> bool:
        return bool((self.c.low >= self.slow + self.incoming.w.sum(axis=1)).all())

    def _fits(self) -> bool:
        """Whether no sum of a step passes the largest number of float32, wherever the sources are."""
        w, E = self.incoming.w, np.abs(self.incoming.E)
        total = self.slow + w.sum(axis=1) + self.cm
        # Twice as far as the cell's own bounds, which are still to be widened by rounding.
        farthest = 2 * max(float(self.bounds.size.max()), float(E.max(initial=0.0)))
        return bool(np.max(total * max(farthest, 1.0) + np.abs(self.leak)) <= LARGEST)

    def outer(self) -> Interval:
        """Returns the cell's own bounds, widened by rounding.

        Neurons behind gap junctions average each other, so rounding adds up in them: their bounds are widened until no
        mean of numbers within the bounds lies outside.
        """
        if self.gap:
            return between(-np.inf, np.inf, self.size)
        bounds = outward(*self.bounds, *self._roundings(self.bounds))
        free, extra = Interval(np.zeros_like(self.incoming.w), self.incoming.w), bounds.size - self.bounds.size
        for doubled in range(DOUBLED if len(self.gap_target) else 0):
            mean = self._mean(free, bounds)
            if (mean.low >= bounds.low).all() and (mean.high <= bounds.high).all():
                return bounds
            wider = 2.0**doubled * extra.max()
            bounds = Interval(self.bounds.low - wider, self.bounds.high + wider)
        if len(self.gap_target):
            self.gap = "the gap junctions are so strong that rounding adds up in the neurons which they join"
            return between(-np.inf, np.inf, self.size)
        return bounds

    def _roundings(self, states: Interval) -> tuple[Array, Array]:
        """Returns how many roundings a neuron's mean goes through, and the greatest number that is averaged."""
        largest = np.maximum(np.abs(self.incoming.E).max(axis=1, initial=0.0), np.abs(self.leak / self.slow))
        np.maximum.at(largest, self.gap_target, states.size[self.gap_source])
        return np.asarray(self.incoming.count + np.bincount(self.gap_target, minlength=self.units) + 8.0), largest

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the least and the greatest weighted mean of every neuron."""
        if self.gap:
            return states
        return self._mean(self.conductances(states, features), states)

    def _mean(self, opened: Interval, states: Interval) -> Interval:
        """Returns the least and the greatest weighted mean for conductances (N, K); infinite ones if one is unknown."""
        known: NDArray[np.bool_] = np.asarray(opened.is_finite.all(axis=1))
        numbers = Interval(*(np.where(known[:, None], end, 0.0) for end in opened))
        mean = mean_range(numbers, self.incoming.E, self._fixed_current(states), self.slow)
        return outward(*mean, *self._roundings(states)).where(known)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of a fused step, in which the state counts with the conductance c."""
        if self.gap:
            return between(-np.inf, np.inf, self.size)
        opened = self.conductances(states, features)
        # With one c for all steps, the state is one more fixed current in the mean.
        once = self.elapsed.low == self.elapsed.high and np.isfinite(self.c.high).all()
        if self.is_euler or not once or not opened.is_finite.all():
            return super().after(states, features)
        fixed = self._fixed_current(states)
        kept = Interval(*(current + self.c.low * end for current, end in zip(fixed, states, strict=True)))
        moved = mean_range(opened, self.incoming.E, kept, self.slow + self.c.low)
        count, largest = self._roundings(states)
        return outward(*moved, count, np.maximum(largest, states.size))

    def openness(self, states: Interval, features: Interval) -> Interval:
        """Returns the sigmoids, (S + E,)."""
        sigmoids = self._sigmoids(states, features)
        exists = self.incoming.exists
        order = np.argsort(self.incoming.place[exists])
        return Interval(sigmoids.low[exists][order], sigmoids.high[exists][order])

    def conductances(self, states: Interval, features: Interval) -> Interval:
        """Returns the interval of every conductance a, (N, K)."""
        return multiply(point(self.incoming.w), self._sigmoids(states, features))

    def _sigmoids(self, states: Interval, features: Interval) -> Interval:
        incoming, source = self.incoming, self.incoming.gather(self._mapped(features), states)
        opened = sigmoid(multiply(point(incoming.sigma), subtract(source, point(incoming.mu))))
        # Code may multiply sigma by the source and by mu apart, and by log2(e).
        opened = opened.where(product(2 * np.abs(incoming.sigma), source.size + np.abs(incoming.mu)) <= LARGEST)
        return Interval(np.where(self.incoming.exists, opened.low, 0), np.where(self.incoming.exists, opened.high, 0))

    def _mapped(self, features: Interval) -> Interval:
        """Applies the input map."""
        if self.scale is None:
            return features
        mapped = multiply(point(numbers(self.scale)), features)
        return mapped if self.shift is None else add(mapped, point(numbers(self.shift)))

    def _fixed_current(self, states: Interval) -> Interval:
        """Returns the current into v = 0 through the leak and the gap junctions, (N,)."""
        low, high = (
            self.leak + np.bincount(self.gap_target, product(self.gap_conductance, end[self.gap_source]), self.units)
            for end in states
        )
        return Interval(low, high)

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns `cm / (slow + sum a)`, also for a copy in float64, whose cm differs by the rounding of its sums."""
        constants = divide(point(self.cm), self._total(states, features))
        constants = outward(*constants, self.incoming.count + CAPACITANCE_ROUNDINGS)
        return Interval(np.maximum(constants.low, 0.0), constants.high)

    def _total(self, states: Interval, features: Interval) -> Interval:
        """Returns the sum of all conductances, (N,)."""
        opened = self.conductances(states, features)
        return outward(self.slow + opened.low.sum(axis=1), self.slow + opened.high.sum(axis=1), self.incoming.count + 1)

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a fused step, or of an Euler step."""
        opened, total = self.conductances(states, features), self._total(states, features)
        if self.gap or not opened.is_finite.all():
            return None
        slope = self._synapse_slopes(states, features, opened)
        before, inputs = np.zeros((2, self.size, self.size)), np.zeros((2, self.size, self.features))
        self.incoming.spread(slope, before, inputs)
        scale = np.ones(self.features) if self.scale is None else numbers(self.scale)
        inputs = np.sort(inputs * scale, axis=0)  # a negative scale swaps the ends
        gap_slope, own = self._gap_and_own(total)
        for end, values in enumerate(gap_slope):
            np.add.at(before[end], (self.gap_target, self.gap_source), values)
            before[end][np.arange(self.units), np.arange(self.units)] += own[end]
        return Slopes(point(np.zeros_like(before[0])), Interval(before[0], before[1]), Interval(inputs[0], inputs[1]))

    def _gap_and_own(self, total: Interval) -> tuple[Interval, Interval]:
        """Returns the slopes through gap junctions, and of every neuron by its own state without a synapse."""
        gap, target = self.gap_conductance, self.gap_target
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_euler:
                own = Interval(1 - total.high / self.c.low, 1 - total.low / self.c.high)
                return Interval(gap / self.c.high[target], gap / self.c.low[target] * UP), own
            # 1 - G / (c + G) is c / (c + G), and loses no digit of what a slow neuron forgets.
            ends = (total.high, self.c.low, UP), (total.low, self.c.high, 1 / UP)
            own = Interval(
                *(np.maximum(1 - conductance / (c + conductance) * rounded, 0.0) for conductance, c, rounded in ends)
            )
            through = gap / (self.c.high + total.high)[target], gap / (self.c.low + total.low)[target] * UP
        return Interval(*through), own

    def _synapse_slopes(self, states: Interval, features: Interval, opened: Interval) -> Interval:
        """Returns the slope of every neuron by the source of each of its synapses, (N, K)."""
        incoming, s = self.incoming, self._sigmoids(states, features)
        at = states if self.is_euler else self.after(states, features)
        # Slopes belong to exact arithmetic, in which no state leaves the cell's own bounds.
        exact = Interval(*(np.minimum(np.maximum(end, self.bounds.low), self.bounds.high) for end in at))
        to_state = subtract_ends(incoming.E, exact)
        if self.is_euler:
            steepest = _steepest(s) * incoming.w * np.abs(incoming.sigma) * UP
            size = steepest / self.c.low[:, None] * np.maximum(np.abs(to_state.low), np.abs(to_state.high))
        else:
            size = self._fused_size(states, opened, s, to_state)
        signed = np.sign(incoming.sigma)
        ends = np.stack([signed * np.where(to_state.low < 0, -size, 0), signed * np.where(to_state.high > 0, size, 0)])
        low, high = ends.min(axis=0), ends.max(axis=0)
        return Interval(np.where(incoming.exists, low, 0.0), np.where(incoming.exists, high, 0.0))

    def _fused_size(self, states: Interval, opened: Interval, s: Interval, to_state: Interval) -> Array:
        """Returns the greatest magnitude of each slope, piece by piece of the range of s."""
        incoming = self.incoming
        base = (self.c.low + self.slow + opened.low.sum(axis=1))[:, None] - opened.low
        top = (self.c.high + self.slow + opened.high.sum(axis=1))[:, None] - opened.high
        far = self._farthest_mean(states, opened)
        near = np.maximum(np.abs(to_state.low), np.abs(to_state.high))
        edges = [s.low + (s.high - s.low) * (k / PIECES) for k in range(PIECES + 1)]
        greatest = np.zeros_like(base)
        with np.errstate(divide="ignore", invalid="ignore"):
            for low, high in pairwise(edges):
                least = np.nan_to_num(incoming.w * low / top)
                most = incoming.w * high / base
                ratio = np.clip(1.0, least, most)  # x / (1 + x)^2 is greatest at 1, or at the end that is nearest to it
                by_mean = ratio / (1 + ratio) ** 2 * far
                by_state = most / (1 + most) * near
                greatest = np.maximum(greatest, (1 - low) * np.minimum(by_mean, by_state))
        size: Array = greatest * np.abs(incoming.sigma) * UP
        return size

    def _farthest_mean(self, states: Interval, opened: Interval) -> Array:
        """Returns how far each synapse's E can lie from the mean of all the others and the neuron's state."""
        incoming, fixed = self.incoming, self._fixed_current(states)
        farthest = np.zeros_like(incoming.E)
        for j in range(self.units):
            k = int(incoming.count[j])
            low, high = (np.broadcast_to(end[j, :k], (k, k)).copy() for end in opened)
            # Row i is the mean without synapse i.
            low[np.arange(k), np.arange(k)] = high[np.arange(k), np.arange(k)] = 0.0
            here = Interval(*(np.full(k, end[j]) for end in fixed))
            E = np.broadcast_to(incoming.E[j, :k], (k, k))
            mean = mean_range(Interval(low, high), E, here, np.full(k, self.slow[j])).hull(
                Interval(np.full(k, states.low[j]), np.full(k, states.high[j]))
            )
            apart = subtract_ends(incoming.E[j, :k], mean)
            farthest[j, :k] = np.maximum(np.abs(apart.low), np.abs(apart.high))
        return farthest

    def outputs(self, states: Interval) -> Interval:
        """Applies the output map to the motor neurons."""
        outputs = super().outputs(states)
        if self.cell.output_scale is not None:
            outputs = multiply(point(numbers(self.cell.output_scale)), outputs)
        return outputs if self.cell.output_shift is None else add(outputs, point(numbers(self.cell.output_shift)))

    def output_slopes(self, states: Interval) -> Interval:
        """Returns the output map's scale."""
        slopes = super().output_slopes(states).low
        return point(slopes if self.cell.output_scale is None else slopes * numbers(self.cell.output_scale)[:, None])


def subtract_ends(values: Array, interval: Interval) -> Interval:
    """Returns `values - interval`, (..., K), for an interval (...,) or of the shape of the values."""
    low, high = (end[:, None] if np.ndim(end) < np.ndim(values) else end for end in interval)
    return Interval(values - high, values - low)


def _steepest(s: Interval) -> Array:
    """Returns the greatest s (1 - s)."""
    middle = np.clip(0.5, s.low, s.high)
    greatest: Array = middle * (1 - middle)
    return greatest
