"""A circuit with some of its neurons held and some of its synapses cut: what would it do without them?"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ncp_control.cells.affine import AffineODECell
from ncp_control.cells.base import Cell, Guarantee
from ncp_control.cells.baselines import GatedCell
from ncp_control.cells.cfc import CfC
from ncp_control.cells.ltc import LTC
from ncp_control.cells.ode import ODECell
from ncp_control.solvers import Span, integrate


class Held(Cell):
    """Another cell, some of whose neurons keep one value whatever happens, within a step as between steps.

    It runs on the reference scan.

    :param cell: any cell whose state is one number a neuron
    :param values: what neurons, by their number, are held at
    """

    def __init__(self, cell: Cell, values: Mapping[int, float]) -> None:
        super().__init__(cell.inputs, cell.wiring)
        if cell.state_size != cell.units:
            raise ValueError(f"{type(cell).__name__} keeps more state than one number a neuron: none can be held")
        if isinstance(cell, CfC) and cell.backbone_widths:
            raise ValueError("behind a backbone neurons have no synapses of their own: none can be held")
        wrong = [number for number in values if not 0 <= number < cell.units]
        if wrong:
            raise ValueError(f"there is no neuron {wrong[0]}: the circuit has {cell.units}")
        self.cell = cell
        self.held: Tensor
        self.values: Tensor
        self.register_buffer("held", torch.zeros(cell.units, dtype=torch.bool), persistent=False)
        self.register_buffer("values", torch.zeros(cell.units, dtype=cell.dtype), persistent=False)
        for number, value in values.items():
            self.held[number], self.values[number] = True, value

    def hold(self, state: Tensor) -> Tensor:
        """The state (..., N) with the held neurons at their values."""
        return torch.where(self.held, self.values, state)

    def initial_state(
        self, batch: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> Tensor:
        """Zeros, and the held values."""
        return self.hold(super().initial_state(batch, dtype=dtype, device=device))

    def constants(self) -> Any:
        """The inner cell's."""
        return self.cell.constants()

    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        """The inner cell's."""
        return self.cell.sense(constants, inputs)

    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """The inner cell's step: no solver step and no layer sees a held neuron move."""
        cell, state = self.cell, self.hold(state)
        if isinstance(cell, ODECell):

            def field(x: Tensor) -> tuple[Tensor, Tensor]:
                rate, drive = cell.rate_and_drive(constants, sensed, x)
                still = torch.zeros((), dtype=x.dtype, device=x.device)
                return torch.where(self.held, still, rate), torch.where(self.held, still, drive)

            return integrate(cell.solver, field, state, elapsed, cell.unfolds)
        if isinstance(cell, CfC):
            for part in cell.parts:
                state = self.hold(cell.advance_layer(constants.recurrent, sensed, state, elapsed, part))
            return state
        return self.hold(cell.advance(constants, sensed, state, elapsed))

    def motor(self, states: Tensor) -> Tensor:
        """The inner cell's."""
        return self.cell.motor(states)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The inner cell's; a held neuron's as if it were not."""
        return self.cell.time_constants(inputs, self.hold(state))

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """The inner cell's."""
        return self.cell.time_constant_bounds()

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """The inner cell's, widened to the held values."""
        low, high = self.cell.state_bounds()
        return torch.where(self.held, torch.minimum(low, self.values), low), torch.where(
            self.held, torch.maximum(high, self.values), high
        )

    @property
    def guarantee(self) -> Guarantee:
        """The inner cell's."""
        return self.cell.guarantee

    def config(self) -> dict[str, Any]:
        """The inner cell's settings, and what is held."""
        held = {self.wiring.neuron_names[k]: float(self.values[k]) for k in torch.nonzero(self.held).flatten().tolist()}
        return {**self.cell.config(), "held": held}


@torch.no_grad()
def without_synapses(
    cell: Cell, synapses: Iterable[int], sensory: Iterable[int] = (), gap_junctions: Iterable[int] = ()
) -> Cell:
    """A copy of a cell in which some synapses carry nothing (an LTC's 1e-8, the least that a conductance is).

    :param synapses: numbers of synapses between neurons, in the wiring's order
    :param sensory: of sensory synapses
    :param gap_junctions: of gap junctions, which cells other than an LTC do without anyway
    """
    found = copy.deepcopy(cell)
    wiring = cell.wiring
    recurrent_numbers, sensory_numbers = list(synapses), list(sensory)
    if isinstance(found, LTC):
        nothing = -torch.inf  # a conductance is a softplus of this, and 1e-8
        found.w_raw[recurrent_numbers] = nothing
        found.sensory_w_raw[sensory_numbers] = nothing
        found.gap_raw[list(gap_junctions)] = nothing
    elif isinstance(found, AffineODECell):
        found.gamma_r[recurrent_numbers] = 0.0
        found.gamma[sensory_numbers] = 0.0
    elif isinstance(found, CfC) and not found.backbone_widths:
        place = {pair: k for k, pair in enumerate(zip(found.source.tolist(), found.target.tolist(), strict=True))}
        pairs = [(int(wiring.synapses.source[k]), int(wiring.synapses.target[k])) for k in recurrent_numbers]
        found.weight[:, [place[pair] for pair in pairs]] = 0.0
        found.sensory_weight[:, sensory_numbers] = 0.0
    elif isinstance(found, GatedCell):
        for weight, ends, numbers in (
            (found.weight_hh, wiring.synapses, recurrent_numbers), (found.weight_ih, wiring.sensory, sensory_numbers)
        ):  # fmt: skip
            for k in numbers:
                weight[int(ends.target[k]) :: found.units, int(ends.source[k])] = 0.0
    else:
        raise ValueError(f"synapses of {type(cell).__name__} cannot be cut one by one")
    return found
