"""A liquid time-constant cell with two weights a synapse: one drives a neuron, the other one sets its pace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.cells.base import Cell, Guarantee
from ncp_control.cells.computed import written_class
from ncp_control.cells.currents import Currents, without_gaps
from ncp_control.cells.edges import Weights, arriving, split_last, weights_of
from ncp_control.cells.initial import Range, check_time_constants, fan_in, leads_back
from ncp_control.cells.program_form import ProgramForm, first_of_target
from ncp_control.ops.program import DualSettings, Program
from ncp_control.solvers import Span
from ncp_control.support.muon import LinearWeights
from ncp_control.wiring import Plan, Wiring

TIME_CONSTANTS = (0.05, 20.0)  # in units of `elapsed`
ROOM = 1e-5  # the share of a range of time constants that is left for rounding in float32, at both ends
BRAKE = 0.9  # no brake is stronger, so that no neuron swings for long
WEAK = -2.0  # the first `brake_raw`, for brakes of 0.11
CIRCULATING = 0.1  # how much weaker weights within a layer and back start than those onward
PACES = (-2.0, 2.0)  # the first biases of g, spread over the neurons
PROGRAM = ProgramForm(
    "dual",
    ("start", "program_source", "sensory_start", "sensory_source"),
    ("weight", "sensory_weight", "bias", "brake_raw", "log_tau"),
)


class DualConstants(NamedTuple):
    """The weights as matrices.

    :param sensory: from the inputs, (I, 2, N)
    :param recurrent: from the neurons, (N, 2, N)
    """

    sensory: Weights
    recurrent: Weights


class DualLTC(Cell):
    """Liquid time-constant cell with two weights a synapse. With linear maps f and g of x = [inputs, state]::

        dx/dt = (tanh(f - b x) - x) / tau,    tau = lo^s hi^(1 - s),    s = sigmoid(g)

    So one weight of a synapse says what its neuron moves towards, and the other one how fast; the one f of `NeuralLTC`
    says both. Whatever the weights and inputs are, `lo <= tau <= hi` and `|x| <= 1` hold. The brake b, in (0, 0.9) for
    each neuron, makes it answer to what changes more than to what lasts. By itself every neuron forgets.

    Layers update in the wiring's order: a synapse from an earlier layer carries the value of this step, and one from
    the same or a later layer that of the previous step. So a signal passes from sensory to motor in one step, which is
    exact for what synapses and brake carry: `x' = x + (1 - exp(-elapsed / tau)) (m - x)`, with the tanh above as m.
    Polarities play no part.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param time_constants: (shortest, longest) in units of `elapsed`, between which every time constant stays
    :param brake: whether neurons have a brake
    """

    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor
    log_tau: Tensor
    brake_raw: nn.Parameter | None

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        time_constants: Range = TIME_CONSTANTS,
        brake: bool = True,
    ) -> None:
        super().__init__(inputs, plan)
        limits = check_time_constants(time_constants)
        if limits is None or limits[0] * (1 + ROOM) ** 2 >= limits[1]:
            raise ValueError(
                f"time_constants must be (shortest, longest) with shortest < longest, got {time_constants!r}"
            )
        self.time_constants_range, self.has_brake = limits, brake
        wiring = self.wiring
        self.parts = tuple(wiring.layers.values())
        self.add_indexes(
            source=wiring.synapses.source,
            target=wiring.synapses.target,
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            start=first_of_target(wiring.synapses.target, self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
            program_source=[self._program_source(source, target) for source, target, _ in wiring.synapses],
        )
        scale = fan_in(wiring).rsqrt()
        scales = torch.where(leads_back(wiring), CIRCULATING, 1.0) * scale[self.target]
        self.weight = nn.Parameter(torch.randn(2, len(wiring.synapses)) * scales)
        self.sensory_weight = nn.Parameter(torch.randn(2, len(wiring.sensory)) * scale[self.sensory_target])
        paces = torch.linspace(*PACES, self.units)[torch.randperm(self.units)]
        self.bias = nn.Parameter(torch.stack([torch.zeros(self.units), paces]))
        weak = nn.Parameter(torch.full((self.units,), WEAK)) if brake else None
        self.register_parameter("brake_raw", weak)
        shortest, longest = limits[0] * (1 + ROOM), limits[1] / (1 + ROOM)
        self.add_constants(log_tau=[math.log(shortest), math.log(longest)])

    def _program_source(self, source: int, target: int) -> int:
        """Returns the place of a source in [old states, new states]: new if its layer comes before the target's."""
        layer_start = next(part.start for part in self.parts if part.start <= target < part.stop)
        return source + self.units if source < layer_start else source

    def program(self) -> Program | None:
        """Returns the program; None for a subclass of one's own."""
        if written_class(self) is not DualLTC:
            return None
        return PROGRAM.read(self, DualSettings(self.weight.shape[1], self.sensory_weight.shape[1]))

    def constants(self) -> DualConstants:
        """Returns the weights of existing synapses as matrices."""
        sensory = weights_of(self.sensory_weight, self.sensory_source, self.sensory_target, self.inputs, self.units)
        recurrent = weights_of(self.weight, self.source, self.target, self.units, self.units)
        return DualConstants(*(weights.each(lambda matrix: matrix.transpose(0, 1)) for weights in (sensory, recurrent)))

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of both maps, for `Muon`."""
        inputs, units = self.inputs, self.units
        return [
            LinearWeights(self.sensory_weight, (2, inputs, units), self.sensory_source * units + self.sensory_target),
            LinearWeights(self.weight, (2, units, units), self.source * units + self.target),
        ]

    def sense(self, constants: DualConstants, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of both maps, (..., 2 N)."""
        return arriving(inputs, constants.sensory.each(lambda matrix: matrix.flatten(1))) + self.bias.flatten()

    def advance(self, constants: DualConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Updates the state layer by layer."""
        for part in self.parts:
            state = self._advance_layer(constants, sensed, state, elapsed, part)
        return state

    def advance_held(
        self, constants: DualConstants, sensed: Tensor, state: Tensor, elapsed: Span, held: Tensor
    ) -> Tensor:
        """Updates the state layer by layer and puts held neurons back after each, so that no layer sees them move.

        A subclass that defines `advance` itself has its neurons held from step to step only.
        """
        if type(self).advance is not DualLTC.advance:
            return super().advance_held(constants, sensed, state, elapsed, held)
        for part in self.parts:
            state = torch.where(held, state, self._advance_layer(constants, sensed, state, elapsed, part))
        return state

    def _advance_layer(
        self, constants: DualConstants, sensed: Tensor, state: Tensor, elapsed: Span, part: slice
    ) -> Tensor:
        """Returns the state (B, N) in which the neurons in `part` are one step on."""
        maps = self._maps(constants, sensed, state, part)
        moved = self._combine(maps, elapsed, part, state[:, part])
        return torch.cat([state[:, : part.start], moved, state[:, part.stop :]], dim=-1)

    def _combine(self, maps: Tensor, elapsed: Span, part: slice, before: Tensor) -> Tensor:
        """Returns the next state of the neurons in `part` from their maps (B, 2, n) and their state before (B, n)."""
        brake, (f, g) = self.brake, maps.unbind(1)
        towards = torch.tanh(f if brake is None else f - brake[part] * before)
        # exactly `before` if no time has passed
        return before + (1 - torch.exp(-elapsed / self.paced(g))) * (towards - before)

    def _maps(self, constants: DualConstants, sensed: Tensor, state: Tensor, part: slice) -> Tensor:
        """Returns f and g, (B, 2, n), of the neurons in `part`, without their brakes."""
        of_inputs = split_last(sensed, 2, self.units)[:, :, part]
        found = arriving(state, constants.recurrent.each(lambda matrix: matrix[:, :, part].flatten(1)))
        return of_inputs + split_last(found, *of_inputs.shape[1:])

    @property
    def brake(self) -> Tensor | None:
        """The brake b of every neuron, (N,), from 0 to 0.9; None for neurons without one."""
        return None if self.brake_raw is None else BRAKE * torch.sigmoid(self.brake_raw)

    def paced(self, g: Tensor) -> Tensor:
        """Returns the time constants for values of g."""
        low, high = self.log_tau
        return torch.exp(high + (low - high) * torch.sigmoid(g))

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns every synapse's share of f: what it adds to the argument of the tanh.

        A source in an earlier layer counts with its state after the step, as in the step itself.
        """
        sources = torch.cat([before, after], dim=1)[:, torch.as_tensor(self.program_source)]
        return without_gaps(
            self.wiring, inputs[:, self.sensory_source] * self.sensory_weight[0], sources * self.weight[0]
        )

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets both weights of these synapses to zero."""
        self.weight[:, synapses] = 0.0
        self.sensory_weight[:, sensory] = 0.0

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns tau, (B, N), with every layer taken at the state before the step."""
        constants = self.constants()
        return self.paced(self._maps(constants, self.sense(constants, inputs), state, slice(None))[:, 1])

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of the range that was given."""
        low, high = self.time_constants_range
        one = torch.ones_like(self.bias[0])
        return low * one, high * one

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `[-1, 1]`."""
        high = torch.ones_like(self.bias[0])
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold always."""
        return Guarantee(True, "every step is a weighted mean of the state and a tanh, and tau is a mean of its bounds")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {"time_constants": self.time_constants_range, "brake": self.has_brake}
