"""An MLP on the last few inputs, as a cell: what a memory that is not learnt can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ncp_control.neurons.base import Cell, Currents, Guarantee, without_gaps
from ncp_control.solvers import Span
from ncp_control.wiring import Edges, FullyConnected, Plan, Wiring


class LaggedMLP(Cell):
    """One layer on the last K inputs, to compare with cells that learn what to remember::

        s_t = [x_(t-K+1), ..., x_t],    h_t = tanh(W s_t + b)

    The state s is the last inputs themselves, (B, K I), with zeros for those before the first step; the neurons h
    follow from it. All neurons are outputs, every input feeds every neuron, and no neuron feeds another. Elapsed time
    plays no part.

    :param inputs: number of input features I
    :param plan: a number of neurons, or a built wiring with one such layer
    :param lags: how many inputs the layer sees, K, the present one among them
    """

    uses_elapsed: ClassVar[bool] = False
    always_dense: ClassVar[bool] = True

    def __init__(self, inputs: int, plan: Plan | Wiring | int, *, lags: int = 5) -> None:
        super().__init__(inputs, one_layer(inputs, plan) if isinstance(plan, int) else plan)
        wiring = self.wiring
        feeds_forward = not len(wiring.synapses) and not len(wiring.gap_junctions)
        if not feeds_forward or self.outputs != self.units or len(wiring.sensory) != self.inputs * self.units:
            raise ValueError("LaggedMLP is one dense layer, all of it outputs: give it a number of neurons")
        if lags < 1:
            raise ValueError(f"lags must be at least 1, got {lags!r}")
        self.lags = lags
        self.hidden = nn.Linear(lags * self.inputs, self.units)

    @property
    def state_size(self) -> int:
        """The inputs that the layer sees, K I."""
        return self.lags * self.inputs

    def neurons(self, states: Tensor) -> Tensor:
        """Returns the layer's output on the inputs in the state, (..., N)."""
        return torch.tanh(self.hidden(states))

    def motor(self, states: Tensor) -> Tensor:
        """Returns all neurons."""
        return self.neurons(states)

    def constants(self) -> None:
        """Prepares nothing."""

    def sense(self, constants: None, inputs: Tensor) -> Tensor:
        """Returns the inputs as they are: the state keeps them."""
        return inputs

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Returns the state without its oldest input and with the present one."""
        return torch.cat([state[:, self.inputs :], sensed], dim=-1)

    def at_once(self, constants: None, sensed: Tensor, state: Tensor) -> Tensor | None:
        """Returns the states after every step: all stretches of K inputs, side by side.

        A subclass with a step of its own runs step by step.
        """
        if type(self).advance is not LaggedMLP.advance:
            return None
        steps = sensed.shape[1]
        # The oldest input in the state leaves it in the first step already.
        seen = torch.cat([state.unflatten(1, (self.lags, self.inputs))[:, 1:], sensed], dim=1)
        return torch.cat([seen[:, k : k + steps] for k in range(self.lags)], dim=-1)

    def check_holdable(self) -> None:
        """Refuses to have neurons held: the state has none."""
        raise ValueError("the state of LaggedMLP is inputs, not neurons: none can be held")

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of a sensory synapse to zero, one for every lag."""
        ends = self.wiring.sensory
        for k in sensory:
            self.hidden.weight[ends.target[k], ends.source[k] :: self.inputs] = 0.0

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns each input's share in the argument of the tanh, the sum over its lags."""
        weight = self.hidden.weight.view(self.units, self.lags, self.inputs)
        shares = torch.einsum("tki,nki->tni", after.unflatten(1, (self.lags, self.inputs)), weight)
        sensory = shares.flatten(1)  # the wiring's order: by target, then by source
        return without_gaps(self.wiring, sensory, inputs.new_zeros(len(inputs), 0))

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns NaN, for not known: nothing decays, an input is forgotten at once after K steps."""
        return inputs.new_full((len(inputs), self.units), torch.nan)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns zero and infinity, for not known."""
        zero = torch.zeros_like(self.hidden.bias)
        return zero, zero + torch.inf

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns infinite bounds: inputs can be anything."""
        high = self.hidden.bias.new_full((self.state_size,), torch.inf)
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """Not given: the state is inputs."""
        return Guarantee(False, "the state is the last inputs, which have no bounds; the neurons lie in [-1, 1]")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {"lags": self.lags}


def one_layer(inputs: int, units: int) -> Wiring:
    """Returns a wiring in which every input feeds every neuron, all neurons are outputs, and none feeds another."""
    return replace(FullyConnected(units).build(inputs), synapses=Edges())
