"""The continuous-time RNN: leaky neurons driven by tanh, sigmoid or relu of their synapses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.neurons.affine.neuron import ACTIVATIONS, AffineConstants, AffineODECell
from ncp_control.neurons.base import Guarantee
from ncp_control.neurons.ode import solver_caveat
from ncp_control.neurons.parameters import Range, check_time_constants, positive, raw_of, spread
from ncp_control.wiring import Plan, Wiring


class CTRNN(AffineODECell):
    """Continuous-time RNN: `dx/dt = -x / tau + act(gamma_r x + gamma I + mu)`.

    Every neuron has its own tau, which is positive and starts at 1. The authors of the liquid networks ran it with
    explicit Euler, the default here, and six unfolds.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused", "euler" (default), "rk4" or "dopri5"
    :param unfolds: solver steps for one step of the sequence
    :param activation: "sigmoid", "relu", "tanh" (default) or "hard_tanh"
    :param time_constants: (shortest, longest) in units of `elapsed`; spreads tau evenly in the logarithm
    :param weight_variance: sigma_w^2 of the weights' N(0, sigma_w^2 / k), where k is the neuron's fan-in
    :param bias_variance: sigma_b^2 of the biases' N(0, sigma_b^2)
    """

    compiled = True

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        solver: str = "euler",
        unfolds: int = 6,
        activation: str = "tanh",
        time_constants: Range | None = None,
        weight_variance: float = 1.0,
        bias_variance: float = 0.0,
    ) -> None:
        super().__init__(inputs, plan, solver, unfolds, activation, weight_variance, bias_variance)
        self.time_constants_range = check_time_constants(time_constants)
        tau = torch.ones(self.units) if time_constants is None else spread(time_constants, self.units)
        self.tau_raw = nn.Parameter(raw_of(tau))

    @property
    def tau(self) -> Tensor:
        """The time constant of every neuron, (N,), positive."""
        return positive(self.tau_raw)

    def constants(self) -> AffineConstants:
        """Returns the weights as matrices, and `1 / tau`."""
        return AffineConstants(*self.matrices(), 1 / self.tau)

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `1 / tau` and f."""
        return constants.leak, self.f(constants, sensed, state)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns tau twice: it does not change."""
        return self.tau, self.tau

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `tau` times both ends of the activation's range, widened to include zero."""
        activation = ACTIVATIONS[self.activation]
        return self.tau * min(activation.low, 0.0), self.tau * activation.high

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold for bounded activations with the fused solver."""
        if self.activation == "relu":
            return Guarantee(False, "relu has no upper end, so the states have no upper bound")
        caveat = solver_caveat(self.solver)
        return Guarantee(caveat is None, caveat or "every fused step is a weighted mean of x and tau f")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {**super().config(), "time_constants": self.time_constants_range}
