"""ODE cells driven by one nonlinearity of an affine map over existing synapses: f = act(gamma_r x + gamma I + mu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.cells.base import ProgramForm, first_of_target, index_buffers
from ncp_control.cells.edges import edge_matrix
from ncp_control.cells.initial import fan_in
from ncp_control.cells.ode import ODECell
from ncp_control.ops.program import Program
from ncp_control.wiring import Plan, Wiring

INDEXES = ("start", "source", "sensory_start", "sensory_source")
PARAMETERS = ("gamma", "gamma_r", "mu", "tau_raw", "A")
ONE_STAGE = ProgramForm("affine", INDEXES, PARAMETERS)
PROGRAMS = {"fused": ONE_STAGE, "euler": ONE_STAGE, "rk4": ProgramForm("affine_rk4", INDEXES, PARAMETERS)}


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


class AffineODECell(ODECell):
    """The shared part of `NeuralLTC`, `CTRNN` and `NeuralODE`: gamma, gamma_r, mu and the activation.

    Weights start from N(0, weight_variance / k), k the number of synapses into the neuron, and biases from
    N(0, bias_variance).
    """

    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor
    start: Tensor
    sensory_start: Tensor
    liquid = False  # whether f speeds the neuron up, too

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
        index_buffers(
            self,
            source=wiring.synapses.source,
            target=wiring.synapses.target,
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            start=first_of_target(wiring.synapses.target, self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
        )
        self.sizes = (len(wiring.synapses), len(wiring.sensory))
        self.register_parameter("tau_raw", None)  # for the cells that have them
        self.register_parameter("A", None)
        scale = (weight_variance / fan_in(wiring)).sqrt()
        self.gamma = nn.Parameter(torch.randn(len(wiring.sensory)) * scale[self.sensory_target])
        self.gamma_r = nn.Parameter(torch.randn(len(wiring.synapses)) * scale[self.target])
        self.mu = nn.Parameter(torch.randn(self.units) * bias_variance**0.5)

    def program(self) -> Program | None:
        """Compiled for the solvers of fixed step; RK4 on CPUs only."""
        form = PROGRAMS.get(self.solver)
        if form is None or not type(self).__module__.startswith("ncp_control."):
            return None
        activation = tuple(ACTIVATIONS).index(self.activation)
        settings = (*self.sizes, self.unfolds, int(self.solver == "euler"), int(self.liquid), activation)
        return form.read(self, settings)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """Input weights (I, N) and recurrent weights (N, N), zero where there is no synapse."""
        return (
            edge_matrix(self.gamma, self.sensory_source, self.sensory_target, self.inputs, self.units),
            edge_matrix(self.gamma_r, self.source, self.target, self.units, self.units),
        )

    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        """`gamma I + mu`, (..., N)."""
        gamma: Tensor = constants.gamma
        return inputs @ gamma + self.mu

    def f(self, constants: Any, sensed: Tensor, state: Tensor) -> Tensor:
        """`act(gamma_r x + gamma I + mu)`, (B, N)."""
        return ACTIVATIONS[self.activation].function(state @ constants.gamma_r + sensed)

    def config(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {
            **super().config(),
            "activation": self.activation,
            "weight_variance": self.weight_variance,
            "bias_variance": self.bias_variance,
        }
