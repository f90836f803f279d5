"""A circuit with some of its neurons held at a value, or without some of its synapses."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ncp_control.neurons.base import Cell, Currents, Guarantee
from ncp_control.neurons.ltc.neuron import joined
from ncp_control.neurons.parameters import check_plain
from ncp_control.solvers import Span


class Held(Cell):
    """Another cell with some of its neurons held, each at a value of its own, to show what the circuit then does.

    It runs on the reference scan. `Cell.advance_held` says whether neurons are held within a step or from step to step.

    :param cell: any cell whose state begins with one number for each neuron, which is the neuron
    :param values: the value at which each held neuron stays, by the neuron's number
    """

    def __init__(self, cell: Cell, values: Mapping[int, float]) -> None:
        super().__init__(cell.inputs, cell.wiring)
        cell.check_holdable()
        wrong = [number for number in values if not 0 <= number < cell.units]
        if wrong:
            raise ValueError(f"there is no neuron {wrong[0]}: the circuit has {cell.units}")
        self.cell = cell
        self.held: Tensor
        self.values: Tensor
        self.register_buffer("held", torch.zeros(cell.state_size, dtype=torch.bool), persistent=False)
        self.register_buffer("values", torch.zeros(cell.state_size, dtype=cell.dtype), persistent=False)
        for number, value in values.items():
            self.held[number], self.values[number] = True, value

    @property
    def state_size(self) -> int:
        """The size of the inner cell's state."""
        return self.cell.state_size

    def hold(self, state: Tensor) -> Tensor:
        """Returns the state (..., N) with the held neurons at their values."""
        return torch.where(self.held, self.values, state)

    def initial_state(
        self, batch: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> Tensor:
        """Returns the inner cell's initial state with the held neurons at their values."""
        return self.hold(self.cell.initial_state(batch, dtype=dtype, device=device))

    def constants(self) -> Any:
        """Returns the inner cell's constants."""
        return self.cell.constants()

    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        """Returns what the inner cell senses."""
        return self.cell.sense(constants, inputs)

    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Returns the inner cell's next state, with the held neurons at their values."""
        return self.cell.advance_held(constants, sensed, self.hold(state), elapsed, self.held)

    def motor(self, states: Tensor) -> Tensor:
        """Returns the inner cell's outputs."""
        return self.cell.motor(states)

    def neurons(self, states: Tensor) -> Tensor:
        """Returns the inner cell's neurons."""
        return self.cell.neurons(states)

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents | None:
        """Returns the inner cell's currents; those into held neurons are returned, too, though they change nothing."""
        return self.cell.currents(inputs, self.hold(before), after)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns the inner cell's time constants; a held neuron has the one it would have if it were free."""
        return self.cell.time_constants(inputs, self.hold(state))

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the inner cell's bounds."""
        return self.cell.time_constant_bounds()

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the inner cell's bounds, widened so that they include the held values.

        Neurons that gap junctions join to a held neuron, directly or through others, can come as far as its value.
        """
        low, high = self.cell.state_bounds()
        # Infinity stands for "no held value", so that the least and the greatest of a group pass over it.
        groups = [*joined(self.units, self.wiring.gap_junctions), *range(self.units, self.state_size)]
        group = torch.tensor(groups, device=low.device)
        nothing = torch.full_like(low, torch.inf)
        lowest = nothing.scatter_reduce(0, group, torch.where(self.held, self.values, nothing), "amin")[group]
        highest = (-nothing).scatter_reduce(0, group, torch.where(self.held, self.values, -nothing), "amax")[group]
        return torch.minimum(low, lowest), torch.maximum(high, highest)

    @property
    def guarantee(self) -> Guarantee:
        """The inner cell's guarantee."""
        return self.cell.guarantee

    def config(self) -> dict[str, Any]:
        """Returns the inner cell's settings, and which neurons are held at which values."""
        held = {self.wiring.neuron_names[k]: float(self.values[k]) for k in torch.nonzero(self.held).flatten().tolist()}
        return {**self.cell.config(), "held": held}


@torch.no_grad()
def without_synapses(
    cell: Cell, synapses: Iterable[int], sensory: Iterable[int] = (), gap_junctions: Iterable[int] = ()
) -> Cell:
    """Returns a copy of a cell in which some synapses carry nothing (in an LTC, its smallest conductance of 1e-8).

    This is the way to remove synapses. `torch.nn.utils.prune` sets a parameter to zero, and that is a weak synapse only
    where the parameter is a weight: in an LTC, a `w_raw` of zero is a conductance of softplus(0) = 0.69, and a `sigma`
    of zero a synapse that is half open whatever its source does.

    :param synapses: numbers of synapses between neurons, in the wiring's order
    :param sensory: numbers of sensory synapses
    :param gap_junctions: numbers of gap junctions; only an LTC has currents through them
    """
    check_plain(cell)
    copied = copy.deepcopy(cell)
    copied.cut_synapses(list(synapses), list(sensory), list(gap_junctions))
    return copied
