"""Mixed memory: the long memory of an LSTM in front of another cell's dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.base.muon import LinearWeights
from ncp_control.neurons.base import Cell, Currents, Guarantee
from ncp_control.solvers import Span


class MixedMemoryConstants(NamedTuple):
    """The inner cell's constants, as one member."""

    inner: Any


class MixedMemory(Cell):
    """Lets an LSTM update the state before the inner cell does; the state is [inner state, c], (B, 2 N)::

        g, i, f, o = W x + b + R h
        c' = sigmoid(f + 1) c + sigmoid(i) tanh(g),    h <- sigmoid(o) tanh(c'),    h' = inner(x, h, elapsed)

    The LSTM carries gradients over long times, and the inner cell carries the dynamics. The LSTM is dense.

    :param cell: the inner cell, such as `CfC(8, AutoNCP(40, 16))`
    """

    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {"inputs": ("input_weight",)}

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
        """The size of the inner state, and as much again for the memory c."""
        return 2 * self.cell.state_size

    def constants(self) -> MixedMemoryConstants:
        """Returns the inner cell's constants."""
        return MixedMemoryConstants(self.cell.constants())

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of the LSTM's gates, for `Muon`."""
        size = self.cell.state_size
        return [
            LinearWeights(self.input_weight, (4, size, self.cell.inputs)),
            LinearWeights(self.recurrent_weight, (4, size, size)),
        ]

    def sense(self, constants: MixedMemoryConstants, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of the LSTM's gates, followed by what the inner cell senses."""
        gates = linear(inputs, self.input_weight, self.input_bias)
        return torch.cat([gates, self.cell.sense(constants.inner, inputs)], dim=-1)

    def advance(self, constants: MixedMemoryConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Updates the state by the LSTM, then by the inner cell."""
        gates, sensed = sensed.tensor_split([4 * self.cell.state_size], dim=-1)
        h, c = self._remember(gates, state)
        return torch.cat([self.cell.advance(constants.inner, sensed, h, elapsed), c], dim=-1)

    def _remember(self, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the inner state h and the memory c after the LSTM, given the inputs' share of its gates."""
        h, c = state.chunk(2, dim=-1)
        g, i, f, o = (gates + linear(h, self.recurrent_weight)).chunk(4, dim=-1)
        # Plus 1: at the start of a training the memory keeps most of what it holds.
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def motor(self, states: Tensor) -> Tensor:
        """Returns the inner cell's outputs."""
        return self.cell.motor(self._inner(states))

    def neurons(self, states: Tensor) -> Tensor:
        """Returns the inner cell's neurons."""
        return self.cell.neurons(self._inner(states))

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents | None:
        """Returns the inner cell's currents, at the state from which its own step begins: the one after the LSTM."""
        return self.cell.currents(inputs, self._updated(inputs, before), self._inner(after))

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns the inner cell's time constants, at the state from which its own step begins: after the LSTM."""
        return self.cell.time_constants(inputs, self._updated(inputs, state))

    def _updated(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns the inner state after the LSTM, from the state before a step."""
        return self._remember(linear(inputs, self.input_weight, self.input_bias), state)[0]

    def _inner(self, states: Tensor) -> Tensor:
        """Returns the inner cell's part of states (..., 2 N)."""
        return states[..., : self.cell.state_size]

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the inner cell's bounds."""
        return self.cell.time_constant_bounds()

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the inner cell's bounds, widened to the `[-1, 1]` of the LSTM; the memory c has no bounds."""
        low, high = self.cell.state_bounds()
        infinite = torch.full_like(high, torch.inf)
        return torch.cat([low.clamp(max=-1.0), -infinite]), torch.cat([high.clamp(min=1.0), infinite])

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee: the memory c is not bounded."""
        return Guarantee(False, "the LSTM's memory can grow with every step; its output cannot")

    def config(self) -> dict[str, Any]:
        """Returns the inner cell's settings."""
        return self.cell.config()
