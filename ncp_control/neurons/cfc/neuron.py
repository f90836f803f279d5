"""Closed-form continuous-time cells: default, no_gate and pure, sparse over a wiring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.base.muon import LinearWeights
from ncp_control.neurons.base import Cell, Currents, Guarantee, dense_only, without_gaps
from ncp_control.neurons.cfc.kind import MODES, STRUCT, CfCSettings
from ncp_control.neurons.layered.neuron import INDEXES, LayerConstants, LayeredCell
from ncp_control.neurons.parameters import split_last, written_class
from ncp_control.neurons.program_form import ProgramForm
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

PROGRAM = ProgramForm("cfc", INDEXES, STRUCT.parameters)


class CfC(LayeredCell):
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

    feeds_itself = True
    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "neurons": ("bias", "w_tau", "A"),
        "synapses": ("weight",),
        "sensory": ("sensory_weight",),
    }
    backbone: nn.ModuleList

    def __init__(
        self, inputs: int, plan: Plan | Wiring | int, *, mode: str = "default", backbone: Sequence[int] = ()
    ) -> None:
        super().__init__(inputs, plan)
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}: choose one of {', '.join(MODES)}")
        self.mode = mode
        self.maps = MODES[mode]
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
        # Every neuron feeds itself, and a wiring may have such a synapse already.
        edges = {(source, target) for source, target, _ in wiring.synapses} | {(i, i) for i in range(self.units)}
        by_target = sorted(edges, key=lambda edge: (edge[1], edge[0]))
        self.add_synapses([source for source, _ in by_target], [target for _, target in by_target])
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

    def program(self) -> Program | None:
        """Returns the program of a CfC; None with a backbone and for a subclass of one's own."""
        if written_class(self) is not CfC or self.backbone_widths:
            return None
        sizes = (self.weight.shape[1], self.sensory_weight.shape[1])
        return PROGRAM.read(self, CfCSettings(*sizes, mode=tuple(MODES).index(self.mode)))

    def constants(self) -> LayerConstants:
        """Returns the weights of existing synapses as matrices; nothing behind a backbone."""
        return LayerConstants(None, None) if self.backbone_widths else super().constants()

    def linear_weights(self) -> list[LinearWeights]:
        """Returns the weights of all maps, for `Muon`."""
        if self.backbone_widths:
            return [LinearWeights(self.head, (self.maps, self.units, self.backbone_widths[-1]))]
        return super().linear_weights()

    def sense(self, constants: LayerConstants, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of every map, (..., H N), and with a backbone the inputs themselves."""
        return inputs if constants.sensory is None else super().sense(constants, inputs)

    def check_holdable(self) -> None:
        """Raises a ValueError if the cell has a backbone."""
        super().check_holdable()
        if self.backbone_widths:
            raise ValueError("behind a backbone, neurons have no synapses of their own, so they cannot be held")

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of these synapses to zero in all maps; raises a ValueError if there is a backbone."""
        if self.backbone_widths:
            Cell.cut_synapses(self, synapses, sensory, gap_junctions)
        super().cut_synapses(synapses, sensory, gap_junctions)

    def _maps(self, constants: LayerConstants, sensed: Tensor, state: Tensor, part: slice) -> Tensor:
        """Returns all maps (B, H, n) of the neurons in `part`, which behind a backbone are all neurons."""
        if constants.recurrent is None:
            return self._backbone_maps(sensed, state)
        return super()._maps(constants, sensed, state, part)

    def _backbone_maps(self, inputs: Tensor, state: Tensor) -> Tensor:
        x = torch.cat([inputs, state], dim=-1)
        for layer in self.backbone:
            x = 1.7159 * torch.tanh(0.666 * layer(x))  # LeCun's tanh, which is about 1 at 1
        return split_last(linear(x, self.head, self.bias.flatten()), self.maps, self.units)

    def _combine(self, maps: Tensor, elapsed: Span, part: slice, before: Tensor) -> Tensor:
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
        sensory, weight = self.sensory_weight[0], self.weight[0]
        if self.mode != "pure":
            sensory, weight = (sensory + self.sensory_weight[1]) / 2, (weight + self.weight[1]) / 2
        flowing = (self._carried(before, after) * weight)[:, self.places()]
        return without_gaps(self.wiring, inputs[:, self.sensory_source] * sensory, flowing)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns how fast the gate closes with time: `1 / |a|`, and `1 / (|w_tau| + |f1|)` in pure mode, (B, N).

        Every layer is taken at the state before the step.
        """
        constants = self.constants()
        maps = self._maps(constants, self.sense(constants, inputs), state, slice(None))
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
