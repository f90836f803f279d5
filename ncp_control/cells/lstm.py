"""Long short-term memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from ncp_control.cells.base import Guarantee
from ncp_control.cells.gated import PARAMETERS, GatedCell
from ncp_control.cells.program_form import ProgramForm
from ncp_control.solvers import Span


class LSTM(GatedCell):
    """Long short-term memory, as `torch.nn.LSTM`; the state is [h, c], (B, 2 U)::

        i, f, g, o = W_ih x + b_ih + W_hh h + b_hh
        c' = sigmoid(f) c + sigmoid(i) tanh(g),    h' = sigmoid(o) tanh(c')

    :param inputs: number of input features I
    :param plan: a number of neurons U, or a plan or a wiring that is fully connected
    """

    gates = 4
    program_form = ProgramForm("lstm", (), PARAMETERS)

    @property
    def state_size(self) -> int:
        """The size of h and c together, 2 U."""
        return 2 * self.units

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
