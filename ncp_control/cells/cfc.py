"""Closed-form continuous-time cells: default, no_gate and pure, sparse over a wiring."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.cells.base import Cell, Guarantee, dense_only
from ncp_control.cells.computed import written_class
from ncp_control.cells.currents import Currents, without_gaps
from ncp_control.cells.edges import Weights, arriving, split_last, weights_of
from ncp_control.cells.program_form import ProgramForm, first_of_target
from ncp_control.ops.program import CfCSettings, Program
from ncp_control.solvers import Span
from ncp_control.support.muon import LinearWeights
from ncp_control.wiring import Plan, Wiring

# How many linear maps of x = [inputs, state] each mode needs.
MODES = {"default": 4, "no_gate": 4, "pure": 1}

PROGRAM = ProgramForm(
    "cfc",
    ("start", "program_source", "sensory_start", "sensory_source"),
    ("weight", "sensory_weight", "bias", "w_tau", "A"),
)


class CfCConstants(NamedTuple):
    """The weights of all H maps; None behind a backbone.

    :param sensory: from the inputs, (I, H, N)
    :param recurrent: from the neurons, (N, H, N)
    """

    sensory: Weights | None
    recurrent: Weights | None


class CfC(Cell):
    """Closed-form continuous-time cell. With linear maps f1, f2, a, b of x = [inputs, state] and time t elapsed::

        default:  h' = tanh(f1) (1 - s) + s tanh(f2),   s = sigmoid(a t + b)
        no_gate:  h' = tanh(f1) + s tanh(f2)
        pure:     h' = A - A exp(-t (|w_tau| + |f1|)) f1

    Every map has weights for existing synapses only, and one for each neuron's own state (its membrane). Layers
    update in the wiring's order: a synapse from an earlier layer carries the value of this step, and one from the
    same or a later layer carries the value of the previous step. So a signal passes from sensory to motor in one step,
    and command recurrence is respected. Polarities play no part.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param mode: "default", "no_gate" or "pure"
    :param backbone: widths of dense layers between x and the maps, with the activation `1.7159 tanh(0.666 x)`, for
        fully connected neurons only. The default, (), is no backbone, because a backbone hides the circuit
    """

    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor
    backbone: nn.ModuleList

    def __init__(
        self, inputs: int, plan: Plan | Wiring | int, *, mode: str = "default", backbone: Sequence[int] = ()
    ) -> None:
        super().__init__(inputs, plan)
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}: choose one of {', '.join(MODES)}")
        self.mode = mode
        self.maps = MODES[mode]
        self.parts = tuple(self.wiring.layers.values())
        self.backbone_widths = tuple(backbone)
        if self.backbone_widths:
            self._make_backbone()
        else:
            self._make_synapses()
        self.bias = nn.Parameter(torch.zeros(self.maps, self.units))
        self.register_parameter("w_tau", None)
        self.register_parameter("A", None)
        if mode == "pure":
            # |w_tau| has no gradient at 0, so w_tau would stay there for ever.
            self.w_tau = nn.Parameter(torch.empty(self.units).uniform_(0.1, 1.0))
            self.A = nn.Parameter(torch.ones(self.units))

    def _make_backbone(self) -> None:
        if len(self.wiring.layer_sizes) > 1:
            raise ValueError("a backbone needs one layer of neurons: give a number of neurons, or leave it out")
        dense_only(self)
        sizes = [self.inputs + self.units, *self.backbone_widths]
        layers = [nn.Linear(narrow, wide) for narrow, wide in pairwise(sizes)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
        self.backbone = nn.ModuleList(layers)
        self.head = nn.Parameter(torch.empty(self.maps * self.units, sizes[-1]))
        for part in self.head.data.chunk(self.maps):
            nn.init.xavier_uniform_(part)

    def _make_synapses(self) -> None:
        wiring = self.wiring
        edges = {(source, target) for source, target, _ in wiring.synapses} | {(i, i) for i in range(self.units)}
        by_target = sorted(edges, key=lambda edge: (edge[1], edge[0]))
        self.add_indexes(
            source=[source for source, _ in by_target],
            target=[target for _, target in by_target],
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            start=first_of_target([target for _, target in by_target], self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
            program_source=[self._program_source(source, target) for source, target in by_target],
        )
        ends = self.index_arrays
        arriving = np.bincount(np.concatenate([ends["target"], ends["sensory_target"]]), minlength=self.units)
        leaving = np.bincount(ends["source"], minlength=self.units)
        sensory_leaving = np.bincount(ends["sensory_source"], minlength=self.inputs)

        def draw(fan_in: np.ndarray, fan_out: np.ndarray) -> nn.Parameter:
            """Draws from Xavier's uniform range, with the fan-in and the fan-out of each synapse's own neurons."""
            limit = (6 / torch.tensor(fan_in + fan_out)).sqrt()
            return nn.Parameter((2 * torch.rand(self.maps, len(limit)) - 1) * limit)

        self.weight = draw(arriving[ends["target"]], leaving[ends["source"]])
        self.sensory_weight = draw(arriving[ends["sensory_target"]], sensory_leaving[ends["sensory_source"]])

    def _program_source(self, source: int, target: int) -> int:
        """Returns the place of a source in [old states, new states]: new if its layer comes before the target's."""
        layer_start = next(part.start for part in self.parts if part.start <= target < part.stop)
        return source + self.units if source < layer_start else source

    def program(self) -> Program | None:
        """Returns the program of a CfC; None with a backbone and for a subclass of one's own."""
        if written_class(self) is not CfC or self.backbone_widths:
            return None
        sizes = (self.weight.shape[1], self.sensory_weight.shape[1])
        return PROGRAM.read(self, CfCSettings(*sizes, mode=tuple(MODES).index(self.mode)))

    def constants(self) -> CfCConstants:
        """Returns the weights of existing synapses as matrices."""
        if self.backbone_widths:
            return CfCConstants(None, None)
        sensory = weights_of(self.sensory_weight, self.sensory_source, self.sensory_target, self.inputs, self.units)
        recurrent = weights_of(self.weight, self.source, self.target, self.units, self.units)
        return CfCConstants(*(weights.each(lambda matrix: matrix.transpose(0, 1)) for weights in (sensory, recurrent)))

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of all maps, for `Muon`."""
        maps, inputs, units = self.maps, self.inputs, self.units
        if self.backbone_widths:
            return [LinearWeights(self.head, (maps, units, self.backbone_widths[-1]))]
        return [
            LinearWeights(
                self.sensory_weight, (maps, inputs, units), self.sensory_source * units + self.sensory_target
            ),
            LinearWeights(self.weight, (maps, units, units), self.source * units + self.target),
        ]

    def sense(self, constants: CfCConstants, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of every map, (..., H N), and with a backbone the inputs themselves."""
        if constants.sensory is None:
            return inputs
        return arriving(inputs, constants.sensory.each(lambda matrix: matrix.flatten(1))) + self.bias.flatten()

    def advance(self, constants: CfCConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Updates the state layer by layer, and behind a backbone all at once."""
        if constants.recurrent is None:
            return self._combine(self._backbone_maps(sensed, state), elapsed, slice(None))
        for part in self.parts:
            state = self._advance_layer(constants.recurrent, sensed, state, elapsed, part)
        return state

    def advance_held(
        self, constants: CfCConstants, sensed: Tensor, state: Tensor, elapsed: Span, held: Tensor
    ) -> Tensor:
        """Updates the state layer by layer and puts held neurons back after each, so that no layer sees them move.

        A subclass that defines `advance` itself has its neurons held from step to step only.
        """
        if constants.recurrent is None or type(self).advance is not CfC.advance:
            return super().advance_held(constants, sensed, state, elapsed, held)
        for part in self.parts:
            moved = self._advance_layer(constants.recurrent, sensed, state, elapsed, part)
            state = torch.where(held, state, moved)
        return state

    def check_holdable(self) -> None:
        """Raises a ValueError if the cell has a backbone."""
        super().check_holdable()
        if self.backbone_widths:
            raise ValueError("behind a backbone, neurons have no synapses of their own, so they cannot be held")

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of these synapses to zero in all maps; raises a ValueError if there is a backbone."""
        if self.backbone_widths:
            super().cut_synapses(synapses, sensory, gap_junctions)
        places = self._places()
        self.weight[:, [places[k] for k in synapses]] = 0.0
        self.sensory_weight[:, sensory] = 0.0

    def _places(self) -> list[int]:
        """Returns the index of each of the wiring's synapses in `weight`, which has the membranes, too."""
        place = {pair: k for k, pair in enumerate(zip(self.source.tolist(), self.target.tolist(), strict=True))}
        return [place[source, target] for source, target, _ in self.wiring.synapses]

    def _advance_layer(self, recurrent: Weights, sensed: Tensor, state: Tensor, elapsed: Span, part: slice) -> Tensor:
        """Returns the state (B, N) in which the neurons in `part` are one step on."""
        maps = self._layer_maps(recurrent, split_last(sensed, self.maps, self.units), state, part)
        return torch.cat([state[:, : part.start], self._combine(maps, elapsed, part), state[:, part.stop :]], dim=-1)

    def _layer_maps(self, recurrent: Weights, sensed: Tensor, state: Tensor, part: slice) -> Tensor:
        """Returns all maps (B, H, n) of the neurons in `part`."""
        sensed = sensed[:, :, part]
        found = arriving(state, recurrent.each(lambda matrix: matrix[:, :, part].flatten(1)))
        return sensed + split_last(found, *sensed.shape[1:])

    def _backbone_maps(self, inputs: Tensor, state: Tensor) -> Tensor:
        x = torch.cat([inputs, state], dim=-1)
        for layer in self.backbone:
            x = 1.7159 * torch.tanh(0.666 * layer(x))
        return split_last(linear(x, self.head, self.bias.flatten()), self.maps, self.units)

    def _combine(self, maps: Tensor, elapsed: Span, part: slice) -> Tensor:
        """Applies the closed form to maps (B, H, n) of the neurons in `part`."""
        if self.mode == "pure":
            f1 = maps[:, 0]
            A = self.A[part]
            return A - A * torch.exp(-elapsed * (self.w_tau[part].abs() + f1.abs())) * f1
        f1, f2 = torch.tanh(maps[:, 0]), torch.tanh(maps[:, 1])
        s = torch.sigmoid(maps[:, 2] * elapsed + maps[:, 3])
        if self.mode == "no_gate":
            return f1 + s * f2
        return f1 * (1 - s) + s * f2

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents | None:
        """Returns every synapse's share of f1 in pure mode, and its share of the mean of f1 and f2 in the other modes.

        A source in an earlier layer counts with its state after the step, as in the step itself. Behind a backbone
        the currents are not known.
        """
        if self.backbone_widths:
            return None
        sources = torch.cat([before, after], dim=1)[:, torch.as_tensor(self.program_source)]
        sensory, weight = self.sensory_weight[0], self.weight[0]
        if self.mode != "pure":
            sensory, weight = (sensory + self.sensory_weight[1]) / 2, (weight + self.weight[1]) / 2
        return without_gaps(
            self.wiring, inputs[:, self.sensory_source] * sensory, (sources * weight)[:, self._places()]
        )

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns how fast the gate closes with time: `1 / |a|`, and `1 / (|w_tau| + |f1|)` in pure mode, (B, N).

        Every layer is taken at the state before the step.
        """
        constants = self.constants()
        sensed = self.sense(constants, inputs)
        if constants.recurrent is None:
            maps = self._backbone_maps(sensed, state)
        else:
            maps = self._layer_maps(constants.recurrent, split_last(sensed, self.maps, self.units), state, slice(None))
        if self.mode == "pure":
            return 1 / (self.w_tau.abs() + maps[:, 0].abs())
        return 1 / maps[:, 2].abs()

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns zero and infinity, because a is not bounded; in pure mode zero and `1 / |w_tau|`."""
        zero = torch.zeros_like(self.bias[0])
        return zero, 1 / self.w_tau.abs() if self.mode == "pure" else zero + torch.inf

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `[-1, 1]` in default mode, `[-2, 2]` in no_gate mode, and infinite bounds in pure mode."""
        limit = {"default": 1.0, "no_gate": 2.0, "pure": torch.inf}[self.mode]
        high = torch.full_like(self.bias[0], limit)
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold in the modes whose maps go through tanh."""
        if self.mode == "pure":
            return Guarantee(False, "in pure mode f1 is linear: nothing bounds the state as elapsed comes near 0")
        return Guarantee(True, f"{self.mode} mode mixes values of tanh")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {"mode": self.mode, "backbone": list(self.backbone_widths)}
