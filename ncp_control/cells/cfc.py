"""Closed-form continuous-time cells: default, no_gate and pure, sparse over a wiring."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.cells.base import Cell, Guarantee, ProgramForm, dense_only, first_of_target, index_buffers
from ncp_control.cells.edges import edge_matrix, split_last
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

# Linear maps of x = [inputs, state] that each mode needs.
MODES = {"default": 4, "no_gate": 4, "pure": 1}


PROGRAM = ProgramForm(
    "cfc",
    ("start", "program_source", "sensory_start", "sensory_source"),
    ("weight", "sensory_weight", "bias", "w_tau", "A"),
)


class CfCConstants(NamedTuple):
    """Weights of all maps side by side: inputs (I, H, N) and neurons (N, H, N); None behind a backbone."""

    sensory: Tensor | None
    recurrent: Tensor | None


class CfC(Cell):
    """Closed-form continuous-time cell. With linear maps f1, f2, a, b of x = [inputs, state] and time t elapsed::

        default:  h' = tanh(f1) (1 - s) + s tanh(f2),   s = sigmoid(a t + b)
        no_gate:  h' = tanh(f1) + s tanh(f2)
        pure:     h' = A - A exp(-t (|w_tau| + |f1|)) f1

    Every map has weights for existing synapses only, and one for each neuron's own state (its membrane). Layers
    update in the wiring's order: a synapse from an earlier layer carries this step's value, one from the
    same or a later layer the previous step's. So a signal passes from sensory to motor in one step, and command
    recurrence is honoured. Polarities play no part.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param mode: "default", "no_gate" or "pure"
    :param backbone: widths of dense layers between x and the maps, each `1.7159 tanh(0.666 x)`; only for
        fully connected neurons, and () for none (the default: a backbone hides the circuit)
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
            # not from 0, where |w_tau| has no gradient and would stay
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
        index_buffers(
            self,
            source=[source for source, _ in by_target],
            target=[target for _, target in by_target],
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            start=first_of_target([target for _, target in by_target], self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
            program_source=[self._program_source(source, target) for source, target in by_target],
        )
        arriving = torch.bincount(torch.cat([self.target, self.sensory_target]), minlength=self.units)
        leaving = torch.bincount(self.source, minlength=self.units)
        sensory_leaving = torch.bincount(self.sensory_source, minlength=self.inputs)

        def draw(fan_in: Tensor, fan_out: Tensor) -> nn.Parameter:
            """Xavier's uniform range, by each synapse's own fan-in and fan-out."""
            limit = (6 / (fan_in + fan_out)).sqrt()
            return nn.Parameter((2 * torch.rand(self.maps, len(limit)) - 1) * limit)

        self.weight = draw(arriving[self.target], leaving[self.source])
        self.sensory_weight = draw(arriving[self.sensory_target], sensory_leaving[self.sensory_source])

    def _program_source(self, source: int, target: int) -> int:
        """The source as kernels number it: the old states, then the new ones that earlier layers already have."""
        layer_start = next(part.start for part in self.parts if part.start <= target < part.stop)
        return source + self.units if source < layer_start else source

    def program(self) -> Program | None:
        """Compiled without a backbone."""
        if type(self) is not CfC or self.backbone_widths:
            return None
        sizes = (self.weight.shape[1], self.sensory_weight.shape[1])
        return PROGRAM.read(self, (*sizes, tuple(MODES).index(self.mode)))

    def constants(self) -> CfCConstants:
        """The weights of existing synapses as matrices."""
        if self.backbone_widths:
            return CfCConstants(None, None)
        sensory = edge_matrix(self.sensory_weight, self.sensory_source, self.sensory_target, self.inputs, self.units)
        recurrent = edge_matrix(self.weight, self.source, self.target, self.units, self.units)
        return CfCConstants(sensory.transpose(0, 1), recurrent.transpose(0, 1))

    def sense(self, constants: CfCConstants, inputs: Tensor) -> Tensor:
        """The inputs' share of every map, (..., H N); with a backbone the inputs themselves."""
        if constants.sensory is None:
            return inputs
        return inputs @ constants.sensory.flatten(1) + self.bias.flatten()

    def advance(self, constants: CfCConstants, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """The next state, layer by layer."""
        if constants.recurrent is None:
            return self._combine(self._backbone_maps(sensed, state), elapsed, slice(None))
        for part in self.parts:
            state = self.advance_layer(constants.recurrent, sensed, state, elapsed, part)
        return state

    def advance_layer(self, recurrent: Tensor, sensed: Tensor, state: Tensor, elapsed: Span, part: slice) -> Tensor:
        """The state (B, N) with the neurons in `part` moved on."""
        maps = self._layer_maps(recurrent, split_last(sensed, self.maps, self.units), state, part)
        return torch.cat([state[:, : part.start], self._combine(maps, elapsed, part), state[:, part.stop :]], dim=-1)

    def _layer_maps(self, recurrent: Tensor, sensed: Tensor, state: Tensor, part: slice) -> Tensor:
        """All maps (B, H, n) of the neurons in `part`."""
        weights = recurrent[:, :, part]
        return split_last(state @ weights.flatten(1), *weights.shape[1:]) + sensed[:, :, part]

    def _backbone_maps(self, inputs: Tensor, state: Tensor) -> Tensor:
        x = torch.cat([inputs, state], dim=-1)
        for layer in self.backbone:
            x = 1.7159 * torch.tanh(0.666 * layer(x))
        return split_last(linear(x, self.head, self.bias.flatten()), self.maps, self.units)

    def _combine(self, maps: Tensor, elapsed: Span, part: slice) -> Tensor:
        """The closed form from maps (B, H, n) of the neurons in `part`."""
        if self.mode == "pure":
            f1 = maps[:, 0]
            A = self.A[part]
            return A - A * torch.exp(-elapsed * (self.w_tau[part].abs() + f1.abs())) * f1
        f1, f2 = torch.tanh(maps[:, 0]), torch.tanh(maps[:, 1])
        s = torch.sigmoid(maps[:, 2] * elapsed + maps[:, 3])
        if self.mode == "no_gate":
            return f1 + s * f2
        return f1 * (1 - s) + s * f2

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """How fast the gate closes with time: `1 / |a|`, and `1 / (|w_tau| + |f1|)` in pure mode, (B, N).

        Taken at the states as they enter the step, for every layer.
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
        """Zero and infinity, or `1 / |w_tau|` above in pure mode: f1 and a are not bounded."""
        zero = torch.zeros_like(self.bias[0])
        return zero, 1 / self.w_tau.abs() if self.mode == "pure" else zero + torch.inf

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """`[-1, 1]` in default mode, `[-2, 2]` in no_gate mode, none in pure mode (f1 is linear)."""
        limit = {"default": 1.0, "no_gate": 2.0, "pure": torch.inf}[self.mode]
        high = torch.full_like(self.bias[0], limit)
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """Held by the modes that end in tanh."""
        if self.mode == "pure":
            return Guarantee(False, "in pure mode f1 is linear: nothing bounds the state as elapsed comes near 0")
        return Guarantee(True, f"{self.mode} mode mixes values of tanh")

    def config(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {"mode": self.mode, "backbone": list(self.backbone_widths)}
