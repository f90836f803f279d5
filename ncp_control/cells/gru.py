"""The gated recurrent unit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from ncp_control.cells.base import Guarantee
from ncp_control.cells.gated import PARAMETERS, GatedCell
from ncp_control.cells.program_form import ProgramForm
from ncp_control.solvers import Span


class GRU(GatedCell):
    """Gated recurrent unit, as `torch.nn.GRU`::

        r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)
        h' = (1 - z) tanh(W_in x + b_in + r (W_hn h + b_hn)) + z h

    :param inputs: number of input features I
    :param plan: a number of neurons U, or a plan or a wiring that is fully connected
    """

    gates = 3
    program_form = ProgramForm("gru", (), PARAMETERS)

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
