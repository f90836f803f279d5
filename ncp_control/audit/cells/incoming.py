"""The synapses of an LTC in a table with a row for each neuron, and the range of a weighted mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncp_control.audit.cells.known import numbers
from ncp_control.audit.intervals import Array, IntArray, Interval
from ncp_control.cells import LTC


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
                np.concatenate([numbers(one), numbers(other)])
                for one, other in (
                    (cell.sensory_mu, cell.mu),
                    (cell.sensory_sigma, cell.sigma),
                    (cell.sensory_E, cell.E),
                )
            ),
        ]
        count = np.bincount(target, minlength=cell.units)
        order = np.argsort(target, kind="stable")
        column = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
        shape = cell.units, int(count.max(initial=0))

        def table(one: NDArray[np.generic]) -> NDArray[np.generic]:
            found = np.zeros(shape, dtype=one.dtype)
            found[target[order], column] = one[order]
            return found

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
        others = self.exists & (self.source >= self.inputs)
        for end, values in enumerate(slopes):
            inputs[end][row[sensory], self.source[sensory]] += values[sensory]
            before[end][row[others], self.source[others] - self.inputs] += values[others]


def mean_range(opened: Interval, E: Array, fixed: Interval, slow: Array) -> Interval:
    """Returns the least and the greatest `(fixed + sum_i a_i E_i) / (slow + sum_i a_i)` over all a_i in their ranges.

    A mean rises with a_i where E_i lies above it, so the greatest mean has the a_i of the largest E at their upper ends
    and the others at their lower ends; all places for the border between them are tried.

    :param opened: the ranges of the conductances a, (R, K)
    :param E: the reversal potentials, (R, K)
    :param fixed: the range of the current that does not depend on a, (R,)
    :param slow: the conductance that is always open, positive, (R,)
    :return: (R,)
    """
    order = np.argsort(E, axis=1)
    low, high, E = (np.take_along_axis(one, order, axis=1) for one in (opened.low, opened.high, E))

    def extreme(low: Array, high: Array, E: Array, current: Array) -> Array:
        """Returns the mean for every border: the first k conductances are at `high`, the others at `low`."""
        step, start = (high - low).cumsum(axis=1), low.sum(axis=1)
        carried = ((high - low) * E).cumsum(axis=1)
        zero = np.zeros((len(E), 1))
        above = (current + (low * E).sum(axis=1))[:, None] + np.concatenate([zero, carried], axis=1)
        below = (slow + start)[:, None] + np.concatenate([zero, step], axis=1)
        found: Array = above / below
        return found

    least = extreme(low, high, E, fixed.low).min(axis=1)
    greatest = extreme(low[:, ::-1], high[:, ::-1], E[:, ::-1], fixed.high).max(axis=1)
    return Interval(least, greatest)
