"""Mixed memory: an LSTM's long memory in front of another cell's dynamics."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.cells.base import Cell, Guarantee
from ncp_control.solvers import Span


class MixedMemoryConstants(NamedTuple):
    """The inner cell's constants."""

    inner: Any


class MixedMemory(Cell):
    """Lets an LSTM update the state before the inner cell does; the state is [inner state, c], (B, 2 N)::

        g, i, f, o = W x + b + R h
        c' = sigmoid(f + 1) c + sigmoid(i) tanh(g),    h <- sigmoid(o) tanh(c'),    h' = inner(x, h, elapsed)

    The LSTM carries gradients over long times, the inner cell the dynamics; the LSTM is dense.

    :param cell: the inner cell, such as `CfC(8, AutoNCP(40, 16))`
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.inputs, cell.wiring)
        self.cell = cell
        size = cell.state_size
        self.input_weight = nn.Parameter(torch.empty(4 * size, cell.inputs))
        self.input_bias = nn.Parameter(torch.empty(4 * size).uniform_(-0.1, 0.1))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * size, size))
        nn.init.xavier_uniform_(self.input_weight)
        nn.init.orthogonal_(self.recurrent_weight)

    @property
    def state_size(self) -> int:
        """The inner state and as much memory."""
        return 2 * self.cell.state_size

    def constants(self) -> MixedMemoryConstants:
        """The inner cell's."""
        return MixedMemoryConstants(self.cell.constants())

    def sense(self, constants: MixedMemoryConstants, inputs: Tensor) -> Tensor:
        """The inputs' share of the gates, then what the inner cell senses."""
        gates = linear(inputs, self.input_weight, self.input_bias)
        return torch.cat([gates, self.cell.sense(constants.inner, inputs)], dim=-1)

    def advance(self, constants: MixedMemoryConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """The LSTM's update, then the inner cell's."""
        h, c = state.chunk(2, dim=-1)
        size = h.shape[-1]
        gates = sensed[:, : 4 * size] + linear(h, self.recurrent_weight)
        g, i, f, o = gates.chunk(4, dim=-1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return torch.cat([self.cell.advance(constants.inner, sensed[:, 4 * size :], h, elapsed), c], dim=-1)

    def motor(self, states: Tensor) -> Tensor:
        """The inner cell's outputs."""
        return self.cell.motor(states[..., : self.cell.state_size])

    def neurons(self, states: Tensor) -> Tensor:
        """The inner cell's."""
        return self.cell.neurons(states[..., : self.cell.state_size])

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The inner cell's, at its state."""
        return self.cell.time_constants(inputs, state[:, : self.cell.state_size])

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """The inner cell's."""
        return self.cell.time_constant_bounds()

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """The inner cell's, widened to the LSTM's `[-1, 1]`; none for the memory."""
        low, high = self.cell.state_bounds()
        infinite = torch.full_like(high, torch.inf)
        return torch.cat([low.clamp(max=-1.0), -infinite]), torch.cat([high.clamp(min=1.0), infinite])

    @property
    def guarantee(self) -> Guarantee:
        """Not held by the memory."""
        return Guarantee(False, "the LSTM's memory can grow with every step; its output cannot")

    def config(self) -> dict[str, Any]:
        """The inner cell's settings."""
        return self.cell.config()
