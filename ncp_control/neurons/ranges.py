"""What a certificate needs to know about one kind of cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ncp_control.base.intervals import Array, Interval, between, outward, point
from ncp_control.neurons import Cell
from ncp_control.neurons.catalogue import row_of
from ncp_control.neurons.parameters import written_class

ROUNDINGS = 16  # allowed for a step of a cell that is not known
ONE_STAGE = ("fused", "euler")  # solvers
OVERFLOW = "sums can pass the largest number of float32"
SAFE = 1e18  # a number whose square fits into float32


class Elapsed(NamedTuple):
    """The times between two observations that a certificate holds for."""

    low: float
    high: float


class Slopes(NamedTuple):
    """The derivatives of a solver step: how each number of the state moves with each number that it is computed from.

    Each is an interval that contains the derivative at every point of the certified ranges. An absent synapse has the
    derivative zero.

    :param same: by states of the same solver step, (N, N) as [target, source]: those of earlier layers, if a cell
        updates layer by layer
    :param before: by states before the solver step, (N, N)
    :param inputs: by what the cell reads, (N, F)
    """

    same: Interval
    before: Interval
    inputs: Interval


class Bent(ABC):
    """The step of a layer of n neurons, each a function of H numbers that are linear in what the layer reads.

    The numbers of a neuron move together, so their ranges are shorter than those of what they are made of.

    :ivar weights: of the numbers, (H, n, F + N), by features and by states
    :ivar bias: what is added to them, (H, n)
    :ivar sizes: the magnitudes that the code adds up, (H, n, F + N), which a weight of two parts may hide
    """

    weights: Array
    bias: Array
    sizes: Array

    @abstractmethod
    def values(self, numbers: list[Interval]) -> Interval:
        """Returns the range of the next states, (..., n), for ranges of the numbers, (..., n) each."""

    @abstractmethod
    def slopes(self, numbers: list[Interval]) -> list[Interval]:
        """Returns the derivatives of the next states by each of the numbers."""

    @abstractmethod
    def strays(self, numbers: list[Interval], sizes: Array) -> Array:
        """Returns how far a step in float32 can be from the exact one, (..., n).

        :param numbers: the ranges of the numbers
        :param sizes: the greatest sum of the magnitudes that each is added up from, (..., H, n)
        """


class Known(ABC):
    """What is known about one cell: where its states can be, and how they move with what they are computed from.

    :param cell: the cell
    :param elapsed: the times between two observations
    :ivar substeps: solver steps in one step of the sequence
    :ivar gap: why something could not be shown; None if everything was
    :ivar parts: the neurons of each layer, of a cell whose layers move one after another
    :ivar layer: the layer of each neuron, (units,); a neuron reads what earlier layers computed in the same solver step
    :ivar stays_finite: whether states without a range still stay finite numbers
    """

    substeps = 1
    gap: str | None = None
    parts: tuple[slice, ...] = ()
    stays_finite = False

    def __init__(self, cell: Cell, elapsed: Elapsed) -> None:
        self.cell, self.elapsed = cell, elapsed
        self.size, self.units, self.features = cell.state_size, cell.units, cell.inputs
        self.layer = np.zeros(self.units, dtype=np.int64)

    @classmethod
    def covers(cls, cell: Any) -> bool:
        """Whether this class knows the cell with its settings: here, with every solver that takes one stage."""
        return getattr(cell, "solver", "fused") in ONE_STAGE

    @property
    def has_neurons(self) -> bool:
        """Whether each number of the state is that of a neuron."""
        return self.size == self.units and type(self.cell).neurons is Cell.neurons

    @abstractmethod
    def outer(self) -> Interval:
        """Returns bounds of all states that the cell can reach from its initial state, (N,), however wide."""

    @abstractmethod
    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns an interval (N,) such that no state leaves its hull with zero while all states are in `states`.

        :param states: bounds of all states, (N,)
        :param features: bounds of what the cell reads, (F,)
        """

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns bounds of the states one solver step after states in `states`, (N,).

        This method holds for a cell whose next state lies between the present one and `settled`.
        """
        return states.hull(self.settled(states, features))

    def slopes(self, states: Interval, features: Interval) -> Slopes | None:
        """Returns the derivatives of a solver step; None if they are not known."""
        return None

    def held_slopes(self, states: Interval, features: Interval, slopes: Slopes | None) -> Slopes | None:
        """Returns the derivatives of a solver step in which any neuron may be held anywhere in `states`.

        A cell overrides this method if its neurons read the present state of others. A step leads such a state into a
        part of `states` only, but a held one can be anywhere in them.

        :param slopes: the derivatives of a step in which no neuron is held
        """
        return slopes

    def bent(self, part: slice) -> Bent | None:
        """Returns a layer's step as a function of a few numbers that are linear in what it reads; None if unknown."""
        return None

    def openness(self, states: Interval, features: Interval) -> Interval | None:
        """Returns how far every synapse is open, from 0 to 1: the sensory ones, then the others; None if unknown."""
        return None

    def time_constants(self, states: Interval, features: Interval) -> Interval:
        """Returns bounds of the momentary time constants, (units,); without a guarantee they can be negative."""
        return between(0.0 if self.cell.guarantee.holds else -np.inf, np.inf, self.units)

    def neurons(self, states: Interval) -> Interval:
        """Returns bounds of the number that stands for each neuron, (units,): anything where the cell computes it."""
        plain = type(self.cell).neurons is Cell.neurons
        return states.at(slice(0, self.units)) if plain else between(-np.inf, np.inf, self.units)

    def outputs(self, states: Interval) -> Interval:
        """Returns bounds of the outputs, (O,)."""
        return states.at(slice(self.cell.motor_start, self.cell.motor_start + self.cell.outputs))

    def output_slopes(self, states: Interval) -> Interval:
        """Returns bounds of the outputs' derivatives by the state, (O, N)."""
        motor = np.arange(self.cell.outputs)
        slopes = np.zeros((self.cell.outputs, self.size))
        slopes[motor, self.cell.motor_start + motor] = 1.0
        return point(slopes)


class Opaque(Known):
    """A cell of which only its own bounds are known, if they are guaranteed."""

    def __init__(self, cell: Cell, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        holds, reason = cell.guarantee
        name = type(cell).__name__
        more = "nothing but its own state bounds is used" if holds else f"nothing is shown: {reason}"
        self.gap = f"how the states of the {name} move is not known; {more}"

    def outer(self) -> Interval:
        """Returns the cell's own bounds, widened by rounding, if it guarantees them."""
        if not self.cell.guarantee.holds:
            return between(-np.inf, np.inf, self.size)
        return outward(*as_interval(self.cell.state_bounds()), ROUNDINGS)

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns `states`, unless the parameters and what the cell reads are so large that squares overflow."""
        # A cell that is not known may multiply what it reads by its parameters, and square the products.
        weights = sum(float(np.abs(numbers(parameter)).sum()) for parameter in self.cell.parameters())
        largest = max(float(values.size.max(initial=0.0)) for values in (states, features))
        if weights * max(largest, 1.0) <= SAFE or not self.cell.guarantee.holds:
            return states
        self.gap = OVERFLOW
        return states.where(False)

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the cell's own bounds."""
        return self.outer()

    def outputs(self, states: Interval) -> Interval:
        """Returns the motor neurons of a cell whose outputs are these; anything for other cells."""
        plain = type(self.cell).motor is Cell.motor
        return super().outputs(states) if plain else between(-np.inf, np.inf, self.cell.outputs)


def known_of(cell: Cell, elapsed: Elapsed) -> Known:
    """Returns what is known about a cell; of an unknown one, no more than the bounds that it guarantees.

    A cell is known if its own class is in the catalogue with such ranges: a subclass may step in another way.

    :param cell: the cell
    :param elapsed: the times between two observations
    """
    cell.refresh()
    # Parametrisations give a cell another class, but not another step.
    row = row_of(written_class(cell))
    kind: type[Known] = Opaque if row.ranges is None else row.part("ranges")
    return kind(cell, elapsed) if kind.covers(cell) else Opaque(cell, elapsed)


def numbers(value: Any) -> Array:
    """Returns a tensor as a float64 array."""
    array: Array = value.detach().cpu().double().numpy()
    return array


def as_interval(ends: tuple[Any, Any]) -> Interval:
    """Returns two tensors as an interval."""
    return Interval(numbers(ends[0]), numbers(ends[1]))
