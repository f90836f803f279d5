"""ODE cells driven by one nonlinearity of an affine map over existing synapses: f = act(gamma_r x + gamma I + mu)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.base.muon import LinearWeights
from ncp_control.neurons.affine.kind import STRUCT, AffineSettings
from ncp_control.neurons.base import Currents, without_gaps
from ncp_control.neurons.ode import ODECell
from ncp_control.neurons.parameters import Weights, arriving, fan_in, value_of, weights_of, written_class
from ncp_control.neurons.program_form import ProgramForm, first_of_target
from ncp_control.ops.program import Program
from ncp_control.wiring import Plan, Wiring

NAMES = STRUCT.indexes, STRUCT.parameters
ONE_STAGE = ProgramForm("affine", *NAMES)
PROGRAMS = {"fused": ONE_STAGE, "euler": ONE_STAGE, "rk4": ProgramForm("affine_rk4", *NAMES)}


class Activation(NamedTuple):
    """A nonlinearity and the range of its values."""

    function: Callable[[Tensor], Tensor]
    low: float
    high: float


ACTIVATIONS = {
    "sigmoid": Activation(torch.sigmoid, 0.0, 1.0),
    "relu": Activation(torch.relu, 0.0, float("inf")),
    "tanh": Activation(torch.tanh, -1.0, 1.0),
    "hard_tanh": Activation(nn.functional.hardtanh, -1.0, 1.0),
}


class AffineConstants(NamedTuple):
    """What `constants` returns.

    :param gamma: input weights, (I, N)
    :param gamma_r: recurrent weights, (N, N)
    :param leak: `1 / tau`, (N,) or (1,)
    """

    gamma: Weights
    gamma_r: Weights
    leak: Tensor


class AffineODECell(ODECell):
    """An ODE cell with one weight for each synapse: weights, currents, cutting and a compiled form.

    `NeuralLTC`, `CTRNN` and `NeuralODE` add their rate and drive, their bounds and their guarantee. The compiled form
    knows these three, which say so themselves; a subclass, whose f or rate can differ, does not inherit it.

    Weights start from N(0, weight_variance / k) and biases from N(0, bias_variance), where k is the number of
    synapses into the neuron.
    """

    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "neurons": ("mu", "tau_raw", "tau_logit", "A"),
        "synapses": ("gamma_r",),
        "sensory": ("gamma",),
    }
    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor
    start: Tensor
    sensory_start: Tensor
    compiled = False  # whether the kernels know this very class
    liquid = False  # whether f also raises the rate, which makes the neuron faster
    bounded = False  # whether tau is computed so that no time constant of the system leaves a given range
    signed = False  # whether it does so by its magnitude, so that the rate is positive whatever the sign of f

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        solver: str,
        unfolds: int,
        activation: str,
        weight_variance: float,
        bias_variance: float,
    ) -> None:
        super().__init__(inputs, plan, solver, unfolds)
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        if weight_variance < 0 or bias_variance < 0:
            raise ValueError(f"variances must not be negative, got {weight_variance!r} and {bias_variance!r}")
        self.activation = activation
        self.weight_variance, self.bias_variance = weight_variance, bias_variance
        wiring = self.wiring
        self.add_indexes(
            source=wiring.synapses.source,
            target=wiring.synapses.target,
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            start=first_of_target(wiring.synapses.target, self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
        )
        self.sizes = (len(wiring.synapses), len(wiring.sensory))
        # The kernels read both; subclasses that have them put a parameter in their place.
        self.register_parameter("tau_raw", None)
        self.register_parameter("A", None)
        scale = (weight_variance / fan_in(wiring)).sqrt()
        self.gamma = nn.Parameter(torch.randn(len(wiring.sensory)) * scale[self.sensory_target])
        self.gamma_r = nn.Parameter(torch.randn(len(wiring.synapses)) * scale[self.target])
        self.mu = nn.Parameter(torch.randn(self.units) * bias_variance**0.5)

    def program(self) -> Program | None:
        """Returns a program for a solver of fixed step (RK4 runs on CPUs only); None otherwise and for a subclass."""
        form = PROGRAMS.get(self.solver)
        if form is None or not vars(written_class(self)).get("compiled"):
            return None
        activation = tuple(ACTIVATIONS).index(self.activation)
        settings = AffineSettings(
            *self.sizes,
            self.unfolds,
            euler=int(self.solver == "euler"),
            liquid=int(self.liquid),
            magnitude=int(self.signed),
            activation=activation,
        )
        return form.read(self, settings)

    def raw_tau(self) -> Tensor | None:
        """Returns the numbers, (N,) or (1,), whose softplus tau is, as the kernels read them; None without tau."""
        return value_of(self, "tau_raw")

    def matrices(self) -> tuple[Weights, Weights]:
        """Returns the input weights (I, N) and the recurrent weights (N, N)."""
        return (
            weights_of(self.gamma, self.sensory_source, self.sensory_target, self.inputs, self.units),
            weights_of(self.gamma_r, self.source, self.target, self.units, self.units),
        )

    def linear_weights(self) -> list[LinearWeights]:
        """Returns gamma and gamma_r, for `Muon`."""
        inputs, units = self.inputs, self.units
        return [
            LinearWeights(self.gamma, (1, inputs, units), self.sensory_source * units + self.sensory_target),
            LinearWeights(self.gamma_r, (1, units, units), self.source * units + self.target),
        ]

    def sense(self, constants: AffineConstants, inputs: Tensor) -> Tensor:
        """Returns `gamma I + mu`, (..., N)."""
        return arriving(inputs, constants.gamma) + self.mu

    def f(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> Tensor:
        """Returns `act(gamma_r x + gamma I + mu)`, (B, N)."""
        return ACTIVATIONS[self.activation].function(arriving(state, constants.gamma_r) + sensed)

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns `gamma I` and `gamma_r x` of every synapse: its share of the argument of f as the step begins."""
        sensory, recurrent = inputs[:, self.sensory_source] * self.gamma, before[:, self.source] * self.gamma_r
        return without_gaps(self.wiring, sensory, recurrent)

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the weights of these synapses to zero."""
        self.gamma_r[synapses] = 0.0
        self.gamma[sensory] = 0.0

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            **super().config(),
            "activation": self.activation,
            "weight_variance": self.weight_variance,
            "bias_variance": self.bias_variance,
        }
