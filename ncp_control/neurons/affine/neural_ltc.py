"""The liquid time-constant cell of the 2021 paper, its Eq. 1 and 3, in which f is a small neural network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.neurons.affine.neuron import ACTIVATIONS, AffineConstants, AffineODECell
from ncp_control.neurons.base import Guarantee
from ncp_control.neurons.ode import solver_caveat
from ncp_control.neurons.parameters import (
    Range,
    check_init,
    check_time_constants,
    fan_in,
    free_of,
    leads_back,
    positive,
    raw_of,
    spread,
    with_room,
    within,
)
from ncp_control.ops.program import Program
from ncp_control.wiring import Plan, Wiring

INITS = {
    "paper": "tau log-uniform in [0.01, 1], A ~ N(0, 1)",
    "constant": "tau 1, A ~ N(0, 1)",
    "zero": "tau 1, A 0",
    "calibrated": "tau log-uniform in [0.05, 1], |A| = 1 / tau, so that near f = 0 the equilibrium is f or -f, and "
    "weak synapses within layers and back: signals pass from layer to layer at their size, and what circulates fades",
}
CALIBRATED = (0.05, 1.0)  # the time constants of a calibrated start, unless others are given
CIRCULATING = 0.1  # what such a start makes of a neuron's input from its own layer and from later ones


class NeuralLTC(AffineODECell):
    """Liquid time-constant cell whose f is a neural nonlinearity::

        dx/dt = -(1 / tau + f) x + f A,    f = act(gamma_r x + gamma I + mu)
        tau_sys = tau / (1 + tau f)

    and the fused step `x' = (x + h f A) / (1 + h (1 / tau + f))`, `h = elapsed / unfolds`. gamma and gamma_r
    exist for existing synapses only; tau is positive by construction.

    With `signed`, a negative f drives the neuron towards -A, and speeds it up as well::

        dx/dt = -(1 / tau + |f|) x + f A,    tau_sys = tau / (1 + tau |f|)

    These are two conductances, with the reversal potentials A and -A, of which one at a time is open. For f in [-1, 1]
    `tau / (1 + tau) <= tau_sys <= tau` and `|x| <= |A| tau / (1 + tau)` hold then, whatever the weights and inputs are.

    With `bounded`, training cannot take a time constant out of `time_constants=(lo, hi)`::

        lo <= tau_sys <= hi,    tau = t_lo (hi / t_lo)^sigmoid(tau_logit),    1 / t_lo = 1 / lo - high

    hold for every `tau_logit`, weight and input, where f, or |f| of signed neurons, lies in [0, high]. So `lo` must be
    below `hi / (1 + hi high)`, the shortest time constant that f can give to a neuron with tau = hi.

    Without `signed`, Theorems 1 and 2 need `f >= 0`. With the sigmoid both hold. With ReLU Theorem 2 and the upper
    bound of Theorem 1 hold; f has no upper end, so the time constant's lower bound is 0. With tanh and hard-tanh
    neither holds, because a negative f can make the rate `1 / tau + f` negative. Where tau < 1 it cannot, and wider
    bounds hold there, which `time_constant_bounds` and `state_bounds` return.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused" (default), "euler", "rk4" or "dopri5"
    :param unfolds: solver steps for one step of the sequence
    :param activation: "sigmoid" (default), "relu", "tanh" or "hard_tanh"
    :param signed: let the rate rise by |f| rather than by f; for activations that can be negative
    :param init: "paper" (default), "constant", "zero" or "calibrated", see `INITS`
    :param time_constants: (shortest, longest) in units of `elapsed`; spreads tau, the longest time constant
        a neuron can have, evenly in the logarithm over that range
    :param bounded: keep the time constants of the system within `time_constants` for good, rather than tau at the
        start alone; tau then starts spread over what this range leaves it, but not at the ends. For the sigmoid and for
        signed neurons
    :param weight_variance: sigma_w^2 of the weights' N(0, sigma_w^2 / k), where k is the neuron's fan-in; by default 2,
        and 1 for a calibrated start, which counts synapses from the neuron's own layer and from later ones apart
    :param bias_variance: sigma_b^2 of the biases' N(0, sigma_b^2); by default 1, and 0.1 for a calibrated start
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
        signed: bool = False,
        init: str = "paper",
        time_constants: Range | None = None,
        bounded: bool = False,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
    ) -> None:
        check_init(init, INITS)
        variances = (1.0, 0.1) if init == "calibrated" else (2.0, 1.0)
        asked = (weight_variance, bias_variance)
        drawn = [default if variance is None else variance for variance, default in zip(asked, variances, strict=True)]
        super().__init__(inputs, plan, solver, unfolds, activation, *drawn)
        if signed and ACTIVATIONS[activation].low >= 0:
            raise ValueError(f'{activation} is never negative: leave signed False, or choose activation="tanh"')
        self.init, self.signed = init, signed
        self.time_constants_range = check_time_constants(time_constants)
        if bounded:
            self.bounded, self.tau_range = True, tau_range(self.time_constants_range, activation, signed)
            self.tau_logit = nn.Parameter(free_of(spread(self.tau_range, self.units), self.tau_range))
            tau = self.tau.detach()
        elif self.time_constants_range is not None:
            tau = spread(self.time_constants_range, self.units)
        elif init == "paper":
            tau = 10 ** torch.empty(self.units).uniform_(-2, 0)
        elif init == "calibrated":
            tau = spread(CALIBRATED, self.units)
        else:
            tau = torch.ones(self.units)
        if not bounded:
            self.tau_raw = nn.Parameter(raw_of(tau))
        A = torch.zeros(self.units) if init == "zero" else torch.randn(self.units)
        # With A = 1 / tau the equilibrium f A tau is f itself, while f is small.
        self.A = nn.Parameter(torch.sign(A) / tau if init == "calibrated" else A)
        if init == "calibrated":
            self._balance()

    @torch.no_grad()
    def _balance(self) -> None:
        """Scales the weights from earlier layers to the variance s / k, and all others to 0.01 s / k.

        k is the number of a neuron's synapses of the same sort, and s is `weight_variance`.
        """
        # All weights were drawn with the variance s / (all synapses), and are scaled from that.
        back, all_synapses = leads_back(self.wiring), fan_in(self.wiring)
        circulating = torch.zeros(self.units).index_add(0, self.target[back], torch.ones(int(back.sum())))
        arriving = (all_synapses - circulating).clamp(min=1)
        self.gamma.mul_((all_synapses / arriving).sqrt()[self.sensory_target])
        returned = CIRCULATING * (all_synapses / circulating.clamp(min=1)).sqrt()
        self.gamma_r.mul_(torch.where(back, returned[self.target], (all_synapses / arriving).sqrt()[self.target]))

    @property
    def tau(self) -> Tensor:
        """The intrinsic time constant of every neuron, (N,), positive."""
        return positive(self.raw_tau())

    def raw_tau(self) -> Tensor:
        """Returns `tau_raw`, or what it would be for the tau of bounded neurons, which follows from `tau_logit`."""
        return raw_of(within(self.tau_logit, self.tau_range)) if self.bounded else self.tau_raw

    def program(self) -> Program | None:
        """Returns the program of the class above, with the computed `tau_raw` of bounded neurons."""
        program = super().program()
        if program is None or not self.bounded:
            return program
        gamma, gamma_r, mu, _, A = program.parameters
        return program._replace(parameters=(gamma, gamma_r, mu, self.raw_tau(), A))

    def constants(self) -> AffineConstants:
        """Returns the weights as matrices, and `1 / tau`."""
        return AffineConstants(*self.matrices(), 1 / self.tau)

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `1 / tau + f`, or `1 / tau + |f|`, and `f A`."""
        f = self.f(constants, sensed, state)
        return constants.leak + (f.abs() if self.signed else f), f * self.A

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `1 / (1/tau + high) <= tau_sys <= 1 / (1/tau + low)`: Theorem 1 for f in [low, high].

        The upper bound is infinite where `1 / tau + low` is not positive.
        """
        activation = ACTIVATIONS[self.activation]
        leak = 1 / self.tau
        slowest = leak + (0.0 if self.signed else activation.low)
        upper = torch.where(slowest > 0, 1 / slowest, torch.inf)
        return 1 / (leak + activation.high), upper

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `min(0, A) <= x <= max(0, A)` for `f >= 0` (Theorem 2).

        For f in [-1, 1] these are the equilibria at f = -1 and f = 1: `f A / (1 / tau + |f|)` of signed neurons, and
        `f A / (1 / tau + f)` of the others where tau < 1, with infinite bounds elsewhere.
        """
        activation = ACTIVATIONS[self.activation]
        zero = torch.zeros_like(self.A)
        if activation.low >= 0:
            return torch.minimum(zero, self.A), torch.maximum(zero, self.A)
        leak = 1 / self.tau
        rates = [leak + (abs(end) if self.signed else end) for end in activation[1:]]
        ends = [end * self.A / rate for end, rate in zip(activation[1:], rates, strict=True)]
        bounded = rates[0] > 0
        low = torch.minimum(torch.minimum(zero, ends[0]), ends[1])
        high = torch.maximum(torch.maximum(zero, ends[0]), ends[1])
        return torch.where(bounded, low, -torch.inf), torch.where(bounded, high, torch.inf)

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold for activations with `f >= 0`, and for signed neurons, with the fused solver."""
        if ACTIVATIONS[self.activation].low < 0 and not self.signed:
            return Guarantee(False, f"{self.activation} can be negative, so the rate 1 / tau + f can be too")
        caveat = solver_caveat(self.solver)
        if caveat:
            return Guarantee(False, caveat)
        if self.signed:
            return Guarantee(True, "every fused step is a weighted mean of the state, 0, and A or -A")
        if self.activation == "relu":
            return Guarantee(True, "relu is never negative; it has no upper end, so time constants can come near 0")
        return Guarantee(True, f"{self.activation} lies in (0, 1): Theorems 1 and 2 hold")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            **super().config(),
            "signed": self.signed,
            "init": self.init,
            "time_constants": self.time_constants_range,
            **({"bounded": True} if self.bounded else {}),  # files of other cells are as earlier versions wrote them
        }


def tau_range(limits: Range | None, activation: str, signed: bool) -> Range:
    """Returns the range of tau in which f cannot take a time constant out of `limits`; refuses what has none."""
    _, low, high = ACTIVATIONS[activation]
    if limits is None:
        raise ValueError("bounded=True needs the range of the time constants: give time_constants=(shortest, longest)")
    if high == float("inf"):
        raise ValueError(
            f"{activation} has no upper end, so a time constant can come near 0: leave bounded False, or choose "
            'activation="sigmoid"'
        )
    if low < 0 and not signed:
        raise ValueError(
            f"{activation} can be negative, so the rate 1 / tau + f can be too: give signed=True with bounded=True"
        )
    shortest, longest = with_room(limits)
    if shortest >= longest / (1 + longest * high):
        raise ValueError(
            f"with bounded=True and the longest time constant {limits[1]:g} the shortest must be below "
            f"{limits[1] / (1 + limits[1] * high):.4g}, to which f alone can shorten the longest, got {limits[0]:g}"
        )
    return shortest / (1 - shortest * high), longest
