"""The Neural ODE with inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.neurons.affine.neuron import AffineConstants, AffineODECell
from ncp_control.neurons.base import Guarantee
from ncp_control.wiring import Plan, Wiring


class NeuralODE(AffineODECell):
    """Neural ODE with inputs: `dx/dt = act(gamma_r x + gamma I + mu)`. It has no leak, so its state does not decay.

    The authors of the liquid networks ran it with RK4, the default here.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused", "euler", "rk4" (default) or "dopri5"
    :param unfolds: solver steps for one step of the sequence
    :param activation: "sigmoid", "relu", "tanh" (default) or "hard_tanh"
    :param weight_variance: sigma_w^2 of the weights' N(0, sigma_w^2 / k), where k is the neuron's fan-in
    :param bias_variance: sigma_b^2 of the biases' N(0, sigma_b^2)
    """

    compiled = True

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        solver: str = "rk4",
        unfolds: int = 6,
        activation: str = "tanh",
        weight_variance: float = 1.0,
        bias_variance: float = 0.0,
    ) -> None:
        super().__init__(inputs, plan, solver, unfolds, activation, weight_variance, bias_variance)

    def constants(self) -> AffineConstants:
        """Returns the weights as matrices, and a leak of zero."""
        return AffineConstants(*self.matrices(), self.mu.new_zeros(1))

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns zero and f."""
        return constants.leak, self.f(constants, sensed, state)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns infinity twice: without a leak the time constant is infinite."""
        infinite = torch.full_like(self.mu, torch.inf)
        return infinite, infinite

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns infinite bounds: the state can take any value."""
        infinite = torch.full_like(self.mu, torch.inf)
        return -infinite, infinite

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee: the state is not bounded."""
        return Guarantee(False, "a Neural ODE has no leak: its state can grow without end")
