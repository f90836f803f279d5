"""LSTM and GRU, with the parameters of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from ncp_control.base.muon import LinearWeights
from ncp_control.neurons.base import Cell, Currents, Guarantee, dense_only, without_gaps
from ncp_control.neurons.gated.kind import STRUCT, GatedSettings
from ncp_control.neurons.parameters import written_class
from ncp_control.neurons.program_form import ProgramForm
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

CANDIDATE = 2  # where the gate stands that says what to remember: g of an LSTM, n of a GRU


class GatedCell(Cell):
    """A discrete gated cell with the parameters of torch: weight_ih (G U, I), weight_hh (G U, U), two biases (G U,).

    They are named and drawn, from U(-1/sqrt(U), 1/sqrt(U)), as in `torch.nn.LSTM` and `torch.nn.GRU`, whose state
    dicts fit once the layer's suffix `_l0` is taken off. The elapsed time plays no part.

    :param inputs: number of input features I
    :param plan: a number of neurons, or a plan or a wiring that is fully connected
    """

    gates: ClassVar[int]
    program_form: ClassVar[ProgramForm]  # a subclass does not inherit it: its step can differ
    uses_elapsed: ClassVar[bool] = False
    always_dense: ClassVar[bool] = True
    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {"inputs": ("weight_ih",)}

    def __init__(self, inputs: int, plan: Plan | Wiring | int) -> None:
        super().__init__(inputs, plan)
        dense_only(self)
        rows, limit = self.gates * self.units, self.units**-0.5

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-limit, limit))

        self.weight_ih, self.weight_hh = draw(rows, self.inputs), draw(rows, self.units)
        self.bias_ih, self.bias_hh = draw(rows), draw(rows)

    def program(self) -> Program | None:
        """Returns the program of an LSTM or a GRU, and None for a subclass of one's own."""
        form = vars(written_class(self)).get("program_form")
        return None if form is None else form.read(self, GatedSettings(self.units**2, self.inputs * self.units))

    def constants(self) -> None:
        """Prepares nothing: the step uses the parameters as they are."""

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of every gate, for `Muon`."""
        return [
            LinearWeights(self.weight_ih, (self.gates, self.units, self.inputs)),
            LinearWeights(self.weight_hh, (self.gates, self.units, self.units)),
        ]

    def sense(self, constants: None, inputs: Tensor) -> Tensor:
        """Returns `W_ih x + b_ih`, (..., G U)."""
        return linear(inputs, self.weight_ih, self.bias_ih)

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns every synapse's share of the argument of the candidate's tanh."""
        first, h = CANDIDATE * self.units, self.neurons(before)
        sensory, synapses = (
            [torch.tensor(ends, device=inputs.device) for ends in (edges.source, edges.target)]
            for edges in (self.wiring.sensory, self.wiring.synapses)
        )
        return without_gaps(
            self.wiring,
            inputs[:, sensory[0]] * self.weight_ih[first + sensory[1], sensory[0]],
            h[:, synapses[0]] * self.weight_hh[first + synapses[1], synapses[0]],
        )

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of these synapses to zero, in all gates."""
        for weight, edges, numbers in (
            (self.weight_hh, self.wiring.synapses, synapses),
            (self.weight_ih, self.wiring.sensory, sensory),
        ):
            for k in numbers:
                # The rows of a unit, one for each gate, stand `units` apart.
                weight[int(edges.target[k]) :: self.units, int(edges.source[k])] = 0.0

    def gate_time_constants(self, gate: Tensor) -> Tensor:
        """Returns `-1 / ln(sigmoid(gate))`: after how many steps a state that the gate multiplies has fallen to 1/e."""
        return 1 / softplus(-gate)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns zero and infinity, because a gate can take any value in (0, 1)."""
        zero = self.bias_ih.new_zeros(self.units)
        return zero, zero + torch.inf

    def config(self) -> dict[str, Any]:
        """Returns nothing: there is nothing to set."""
        return {}


class LSTM(GatedCell):
    """Long short-term memory, as `torch.nn.LSTM`; the state is [h, c], (B, 2 U)::

        i, f, g, o = W_ih x + b_ih + W_hh h + b_hh
        c' = sigmoid(f) c + sigmoid(i) tanh(g),    h' = sigmoid(o) tanh(c')

    :param inputs: number of input features I
    :param plan: a number of neurons U, or a plan or a wiring that is fully connected
    """

    gates = 4
    program_form = ProgramForm("lstm", (), STRUCT.parameters)

    @property
    def state_size(self) -> int:
        """The size of h and c together, 2 U."""
        return 2 * self.units

    def check_holdable(self) -> None:
        """Allows it: the first U numbers of the state are the neurons, and what a neuron remembers, c, goes on."""

    def _gates(self, sensed: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return (sensed + linear(h, self.weight_hh, self.bias_hh)).chunk(4, dim=-1)

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Does one step, whatever the elapsed time is."""
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = self._gates(sensed, h)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns in how many steps the forget gate lets the memory fall to 1/e, (B, U)."""
        gates = self._gates(self.sense(None, inputs), state[:, : self.units])
        return self.gate_time_constants(gates[1])

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `[-1, 1]` for h and infinite bounds for c."""
        one = self.bias_ih.new_ones(self.units)
        high = torch.cat([one, one + torch.inf])
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee: the memory c is not bounded."""
        return Guarantee(False, "the memory c of an LSTM can grow with every step")


class GRU(GatedCell):
    """Gated recurrent unit, as `torch.nn.GRU`::

        r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)
        h' = (1 - z) tanh(W_in x + b_in + r (W_hn h + b_hn)) + z h

    :param inputs: number of input features I
    :param plan: a number of neurons U, or a plan or a wiring that is fully connected
    """

    gates = 3
    program_form = ProgramForm("gru", (), STRUCT.parameters)

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Does one step, whatever the elapsed time is."""
        r, z, n = sensed.chunk(3, dim=-1)
        recurrent_r, recurrent_z, recurrent_n = linear(state, self.weight_hh, self.bias_hh).chunk(3, dim=-1)
        n = torch.tanh(n + torch.sigmoid(r + recurrent_r) * recurrent_n)
        z = torch.sigmoid(z + recurrent_z)
        return (1 - z) * n + z * state

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns in how many steps the update gate lets the state fall to 1/e, (B, U)."""
        z = self.sense(None, inputs).chunk(3, dim=-1)[1] + linear(state, self.weight_hh, self.bias_hh).chunk(3, -1)[1]
        return self.gate_time_constants(z)

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `[-1, 1]`."""
        one = self.bias_ih.new_ones(self.units)
        return -one, one

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold, because a step is a mean of the state and a tanh."""
        return Guarantee(True, "every step is a weighted mean of the state and a tanh")
