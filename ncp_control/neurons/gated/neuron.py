"""What an LSTM and a GRU have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from ncp_control.base.muon import LinearWeights
from ncp_control.cells.base import Cell, dense_only
from ncp_control.cells.computed import written_class
from ncp_control.cells.currents import Currents, without_gaps
from ncp_control.cells.program_form import ProgramForm
from ncp_control.ops.program import GatedSettings, Program
from ncp_control.wiring import Plan, Wiring

PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
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
