"""A liquid time-constant cell with two weights per synapse: one drives a neuron, the other one sets its pace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ncp_control.neurons.base import Currents, Guarantee, without_gaps
from ncp_control.neurons.dual.kind import STRUCT, DualSettings
from ncp_control.neurons.layered.neuron import INDEXES, LayeredCell
from ncp_control.neurons.parameters import Range, check_time_constants, fan_in, leads_back, with_room, written_class
from ncp_control.neurons.program_form import ProgramForm
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

TIME_CONSTANTS = (0.05, 20.0)  # in units of `elapsed`
BRAKE = 0.9  # no brake is ever stronger, so that no neuron swings for long
WEAK = -2.0  # every `brake_raw` at the start, for brakes of 0.11
CIRCULATING = 0.1  # weights within a layer and back start so much weaker than those onward, so that loops fade
PACES = (-2.0, 2.0)  # the neurons' biases of g at the start, from slow to fast
PROGRAM = ProgramForm("dual", INDEXES, STRUCT.parameters)


class DualLTC(LayeredCell):
    """Liquid time-constant cell with two weights per synapse. With linear maps f and g of x = [inputs, state]::

        dx/dt = (tanh(f - b x) - x) / tau,    tau = lo^s hi^(1 - s),    s = sigmoid(g)

    So one weight of a synapse says what its neuron moves towards, and the other one how fast; the one f of `NeuralLTC`
    says both. Whatever the weights and inputs are, `lo <= tau <= hi` and `|x| <= 1` hold. The brake b, in (0, 0.9) for
    each neuron, makes it answer to what changes more than to what lasts. By itself every neuron forgets: in a step of
    the time 1 a change of its state shrinks to at most the larger of `exp(-1 / hi)` and the strongest brake.

    Layers update in the wiring's order: a synapse from an earlier layer carries the value of this step, and one from
    the same or a later layer that of the previous step. So a signal passes from sensory to motor in one step, which is
    exact for what synapses and brake carry: `x' = x + (1 - exp(-elapsed / tau)) (m - x)`, with the tanh above as m.
    Polarities play no part.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param time_constants: (shortest, longest) in units of `elapsed`, between which every time constant stays
    :param brake: how strong a brake can become, above 0 and at most 0.9; True is 0.9, and False is no brake
    """

    maps = 2
    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "neurons": ("bias", "brake_raw"),
        "synapses": ("weight",),
        "sensory": ("sensory_weight",),
    }
    log_tau: Tensor
    brake_raw: nn.Parameter | None

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        time_constants: Range = TIME_CONSTANTS,
        brake: bool | float = True,
    ) -> None:
        super().__init__(inputs, plan)
        limits = check_time_constants(time_constants)
        if limits is None or with_room(limits)[0] >= with_room(limits)[1]:
            raise ValueError(
                f"time_constants must be (shortest, longest) with shortest < longest, got {time_constants!r}"
            )
        if not isinstance(brake, bool) and not 0 < brake <= BRAKE:
            raise ValueError(f"brake must be True, False, or a number above 0 and at most {BRAKE}, got {brake!r}")
        self.time_constants_range, self.strongest_brake = limits, BRAKE if brake is True else float(brake)
        wiring = self.wiring
        self.add_synapses(wiring.synapses.source, wiring.synapses.target)
        scale = fan_in(wiring).rsqrt()
        scales = torch.where(leads_back(wiring), CIRCULATING, 1.0) * scale[self.target]
        self.weight = nn.Parameter(torch.randn(2, len(wiring.synapses)) * scales)
        self.sensory_weight = nn.Parameter(torch.randn(2, len(wiring.sensory)) * scale[self.sensory_target])
        paces = torch.linspace(*PACES, self.units)[torch.randperm(self.units)]
        self.bias = nn.Parameter(torch.stack([torch.zeros(self.units), paces]))
        weak = nn.Parameter(torch.full((self.units,), WEAK)) if brake else None
        self.register_parameter("brake_raw", weak)
        self.add_constants(log_tau=[math.log(limit) for limit in with_room(limits)])

    def program(self) -> Program | None:
        """Returns the program; None for a subclass of one's own."""
        if written_class(self) is not DualLTC:
            return None
        program = PROGRAM.read(self, DualSettings(self.weight.shape[1], self.sensory_weight.shape[1]))
        if self.brake_raw is None or self.strongest_brake == BRAKE:
            return program
        *before, raw, log_tau = program.parameters
        assert raw is not None
        # logit(brake / BRAKE), which is -inf without a slope once a brake has rounded to zero
        left = torch.full_like(raw, math.log((BRAKE - self.strongest_brake) / BRAKE))
        scaled = math.log(self.strongest_brake / BRAKE) - torch.logaddexp(-raw, left)
        return program._replace(parameters=(*before, scaled, log_tau))

    def _combine(self, maps: Tensor, elapsed: Span, part: slice, before: Tensor) -> Tensor:
        """Returns the next state of the neurons in `part` from their maps (B, 2, n) and their state before (B, n)."""
        brake, (f, g) = self.brake, maps.unbind(1)
        towards = torch.tanh(f if brake is None else f - brake[part] * before)
        # In this form the state stays exactly what it was if no time has passed.
        return before - torch.expm1(-elapsed / self.paced(g)) * (towards - before)

    @property
    def brake(self) -> Tensor | None:
        """The brake b of every neuron, (N,), from 0 to the strongest; None for neurons without one."""
        return None if self.brake_raw is None else self.strongest_brake * torch.sigmoid(self.brake_raw)

    def paced(self, g: Tensor) -> Tensor:
        """Returns the time constants for values of g."""
        low, high = self.log_tau
        return torch.exp(high + (low - high) * torch.sigmoid(g))

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns every synapse's share of f: what it adds to the argument of the tanh.

        A source in an earlier layer counts with its state after the step, as in the step itself.
        """
        sensory = inputs[:, self.sensory_source] * self.sensory_weight[0]
        return without_gaps(self.wiring, sensory, self._carried(before, after) * self.weight[0])

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
        brake = self.strongest_brake
        return {"time_constants": self.time_constants_range, "brake": bool(brake) if brake in (0, BRAKE) else brake}
