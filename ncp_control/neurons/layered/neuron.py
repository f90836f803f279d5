"""What cells have in common whose layers update in the wiring's order, from linear maps of what a neuron hears."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.base.muon import LinearWeights
from ncp_control.neurons.base import Cell
from ncp_control.neurons.parameters import Weights, arriving, split_last, weights_of
from ncp_control.neurons.program_form import first_of_target
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

# The index tensors of a program, whose sources are numbered among the old states and then the new ones.
INDEXES = ("start", "program_source", "sensory_start", "sensory_source")


class LayerConstants(NamedTuple):
    """The weights of all H maps as matrices; None for maps that read something else.

    :param sensory: from the inputs, (I, H, N)
    :param recurrent: from the neurons, (N, H, N)
    """

    sensory: Weights | None
    recurrent: Weights | None


class LayeredCell(Cell):
    """A cell with H linear maps of x = [inputs, state], from which a neuron's next state follows.

    Layers update in the wiring's order: a synapse from an earlier layer carries the value of this step, and one from
    the same or a later layer that of the previous step.

    A subclass calls `add_synapses`, and has `weight` (H, E), `sensory_weight` (H, S) and `bias` (H, N).

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    """

    maps: int
    weight: nn.Parameter
    sensory_weight: nn.Parameter
    bias: nn.Parameter
    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor

    def __init__(self, inputs: int, plan: Plan | Wiring | int) -> None:
        super().__init__(inputs, plan)
        self.parts = tuple(self.wiring.layers.values())

    def add_synapses(self, source: Any, target: Any) -> None:
        """Registers the ends of the synapses among neurons, sorted by target, and those of the sensory ones."""
        sensory = self.wiring.sensory
        self.add_indexes(
            source=source,
            target=target,
            sensory_source=sensory.source,
            sensory_target=sensory.target,
            start=first_of_target(target, self.units),
            sensory_start=first_of_target(sensory.target, self.units),
            program_source=[self._program_source(*ends) for ends in zip(source, target, strict=True)],
        )

    def _program_source(self, source: int, target: int) -> int:
        """Returns the place of a source in [old states, new states]: new if its layer comes before the target's."""
        # A neuron of its own layer or of a later one is read as it was before the step.
        layer_start = next(part.start for part in self.parts if part.start <= target < part.stop)
        return source + self.units if source < layer_start else source

    def constants(self) -> LayerConstants:
        """Returns the weights of existing synapses as matrices."""
        sensory = weights_of(self.sensory_weight, self.sensory_source, self.sensory_target, self.inputs, self.units)
        recurrent = weights_of(self.weight, self.source, self.target, self.units, self.units)
        both = (weights.each(lambda matrix: matrix.transpose(0, 1)) for weights in (sensory, recurrent))
        return LayerConstants(*both)

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of all maps, for `Muon`."""
        maps, inputs, units = self.maps, self.inputs, self.units
        sensory = self.sensory_source * units + self.sensory_target
        return [
            LinearWeights(self.sensory_weight, (maps, inputs, units), sensory),
            LinearWeights(self.weight, (maps, units, units), self.source * units + self.target),
        ]

    def sense(self, constants: LayerConstants, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of every map, (..., H N)."""
        assert constants.sensory is not None
        return arriving(inputs, constants.sensory.each(lambda matrix: matrix.flatten(1))) + self.bias.flatten()

    def advance(self, constants: LayerConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Updates the state layer by layer."""
        for part in self.parts:
            state = self._advance_layer(constants, sensed, state, elapsed, part)
        return state

    def advance_held(
        self, constants: LayerConstants, sensed: Tensor, state: Tensor, elapsed: Span, held: Tensor
    ) -> Tensor:
        """Updates the state layer by layer and puts held neurons back after each, so that no layer sees them move.

        A subclass that defines `advance` itself has its neurons held from step to step only.
        """
        if type(self).advance is not LayeredCell.advance:
            return super().advance_held(constants, sensed, state, elapsed, held)
        for part in self.parts:
            state = torch.where(held, state, self._advance_layer(constants, sensed, state, elapsed, part))
        return state

    def _advance_layer(
        self, constants: LayerConstants, sensed: Tensor, state: Tensor, elapsed: Span, part: slice
    ) -> Tensor:
        """Returns the state (B, N) in which the neurons in `part` are one step on."""
        maps = self._maps(constants, sensed, state, part)
        moved = self._combine(maps, elapsed, part, state[:, part])
        # Autograd keeps the old state, so it is not written over.
        return torch.cat([state[:, : part.start], moved, state[:, part.stop :]], dim=-1)

    def _maps(self, constants: LayerConstants, sensed: Tensor, state: Tensor, part: slice) -> Tensor:
        """Returns all maps (B, H, n) of the neurons in `part`."""
        assert constants.recurrent is not None
        of_inputs = split_last(sensed, self.maps, self.units)[:, :, part]
        of_states = arriving(state, constants.recurrent.each(lambda matrix: matrix[:, :, part].flatten(1)))
        return of_inputs + split_last(of_states, *of_inputs.shape[1:])

    @abstractmethod
    def _combine(self, maps: Tensor, elapsed: Span, part: slice, before: Tensor) -> Tensor:
        """Returns the next state of the neurons in `part` from their maps (B, H, n) and their state before (B, n)."""

    def places(self) -> list[int]:
        """Returns the index of each of the wiring's synapses in `weight`, which can have more."""
        return synapse_places(self.source, self.target, self.wiring)

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of these synapses to zero in all maps."""
        places = self.places()
        self.weight[:, [places[k] for k in synapses]] = 0.0
        self.sensory_weight[:, sensory] = 0.0

    def _carried(self, before: Tensor, after: Tensor) -> Tensor:
        """Returns what every synapse among neurons carries, (B, E): the state after the step of an earlier layer."""
        return torch.cat([before, after], dim=1)[:, torch.as_tensor(self.program_source)]


def synapse_places(source: Tensor, target: Tensor, wiring: Wiring) -> list[int]:
    """Returns where each synapse of a wiring is among synapses with these ends."""
    place = {pair: k for k, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True))}
    return [place[source, target] for source, target, _ in wiring.synapses]
