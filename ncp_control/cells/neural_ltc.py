"""The liquid time-constant cell of the 2021 paper, its Eq. 1 and 3, in which f is a small neural network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.cells.affine import ACTIVATIONS, AffineConstants, AffineODECell
from ncp_control.cells.base import Guarantee
from ncp_control.cells.initial import Range, check_init, check_time_constants, spread
from ncp_control.cells.ode import solver_caveat
from ncp_control.cells.positive import positive, raw_of
from ncp_control.wiring import Plan, Wiring

INITS = {
    "paper": "tau log-uniform in [0.01, 1], A ~ N(0, 1)",
    "constant": "tau 1, A ~ N(0, 1)",
    "zero": "tau 1, A 0",
}


class NeuralLTC(AffineODECell):
    """Liquid time-constant cell whose f is a neural nonlinearity::

        dx/dt = -(1 / tau + f) x + f A,    f = act(gamma_r x + gamma I + mu)
        tau_sys = tau / (1 + tau f)

    and the fused step `x' = (x + h f A) / (1 + h (1 / tau + f))`, `h = elapsed / unfolds`. gamma and gamma_r
    exist for existing synapses only; tau is positive by construction.

    Theorems 1 and 2 need `f >= 0`. With the sigmoid both hold. With ReLU Theorem 2 and the upper bound of Theorem 1
    hold; f has no upper end, so the time constant's lower bound is 0. With tanh and hard-tanh neither holds, because
    a negative f can make the rate `1 / tau + f` negative. Where tau < 1 it cannot, and wider bounds hold there, which
    `time_constant_bounds` and `state_bounds` return.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused" (default), "euler", "rk4" or "dopri5"
    :param unfolds: solver steps for one step of the sequence
    :param activation: "sigmoid" (default), "relu", "tanh" or "hard_tanh"
    :param init: "paper" (default), "constant" or "zero", see `INITS`
    :param time_constants: (shortest, longest) in units of `elapsed`; spreads tau, the longest time constant
        a neuron can have, evenly in the logarithm over that range
    :param weight_variance: sigma_w^2 of the weights' N(0, sigma_w^2 / k), where k is the neuron's fan-in
    :param bias_variance: sigma_b^2 of the biases' N(0, sigma_b^2)
    """

    compiled = True
    liquid = True

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        solver: str = "fused",
        unfolds: int = 6,
        activation: str = "sigmoid",
        init: str = "paper",
        time_constants: Range | None = None,
        weight_variance: float = 2.0,
        bias_variance: float = 1.0,
    ) -> None:
        super().__init__(inputs, plan, solver, unfolds, activation, weight_variance, bias_variance)
        check_init(init, INITS)
        self.init = init
        self.time_constants_range = check_time_constants(time_constants)
        if self.time_constants_range is not None:
            tau = spread(self.time_constants_range, self.units)
        elif init == "paper":
            tau = 10 ** torch.empty(self.units).uniform_(-2, 0)
        else:
            tau = torch.ones(self.units)
        self.tau_raw = nn.Parameter(raw_of(tau))
        self.A = nn.Parameter(torch.zeros(self.units) if init == "zero" else torch.randn(self.units))

    @property
    def tau(self) -> Tensor:
        """The intrinsic time constant of every neuron, (N,), positive."""
        return positive(self.tau_raw)

    def constants(self) -> AffineConstants:
        """Returns the weights as matrices, and `1 / tau`."""
        return AffineConstants(*self.matrices(), 1 / self.tau)

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `1 / tau + f` and `f A`."""
        f = self.f(constants, sensed, state)
        return constants.leak + f, f * self.A

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `1 / (1/tau + high) <= tau_sys <= 1 / (1/tau + low)`: Theorem 1 for f in [low, high].

        The upper bound is infinite where `1 / tau + low` is not positive.
        """
        activation = ACTIVATIONS[self.activation]
        leak = 1 / self.tau
        slowest = leak + activation.low
        upper = torch.where(slowest > 0, 1 / slowest, torch.inf)
        return 1 / (leak + activation.high), upper

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `min(0, A) <= x <= max(0, A)` for `f >= 0` (Theorem 2).

        For f in [-1, 1] these are the equilibria `f A / (1 / tau + f)` at f = -1 and f = 1 where tau < 1, and infinite
        bounds elsewhere.
        """
        activation = ACTIVATIONS[self.activation]
        zero = torch.zeros_like(self.A)
        if activation.low >= 0:
            return torch.minimum(zero, self.A), torch.maximum(zero, self.A)
        leak = 1 / self.tau
        ends = [end * self.A / (leak + end) for end in (activation.low, activation.high)]
        bounded = leak + activation.low > 0
        low = torch.minimum(torch.minimum(zero, ends[0]), ends[1])
        high = torch.maximum(torch.maximum(zero, ends[0]), ends[1])
        return torch.where(bounded, low, -torch.inf), torch.where(bounded, high, torch.inf)

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold for activations with `f >= 0` and the fused solver."""
        if ACTIVATIONS[self.activation].low < 0:
            return Guarantee(False, f"{self.activation} can be negative, so the rate 1 / tau + f can be too")
        caveat = solver_caveat(self.solver)
        if caveat:
            return Guarantee(False, caveat)
        if self.activation == "relu":
            return Guarantee(True, "relu is never negative; it has no upper end, so time constants can come near 0")
        return Guarantee(True, f"{self.activation} lies in (0, 1): Theorems 1 and 2 hold")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {**super().config(), "init": self.init, "time_constants": self.time_constants_range}
