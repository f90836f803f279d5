"""The cells that liquid networks are compared with, behind the same interface."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from ncp_control.cells.affine import ACTIVATIONS, AffineODECell
from ncp_control.cells.base import Cell, Guarantee, ProgramForm, dense_only
from ncp_control.cells.initial import Range, check_time_constants, spread
from ncp_control.cells.ode import solver_caveat
from ncp_control.cells.positive import positive, raw_of
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring


class AffineConstants(NamedTuple):
    """Input weights (I, N), recurrent weights (N, N), and the leak `1 / tau`, (N,) or (1,)."""

    gamma: Tensor
    gamma_r: Tensor
    leak: Tensor


class CTRNN(AffineODECell):
    """Continuous-time RNN: `dx/dt = -x / tau + act(gamma_r x + gamma I + mu)`, tau per neuron, positive, from 1.

    The authors ran it with explicit Euler (the default here) and six unfolds.

    :param time_constants: (shortest, longest) in units of `elapsed`; spreads tau evenly in the logarithm
    """

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
        """The weights as matrices, and `1 / tau`."""
        return AffineConstants(*self.matrices(), 1 / self.tau)

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """`1 / tau` and f."""
        return constants.leak, self.f(constants, sensed, state)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """tau, which does not change."""
        return self.tau, self.tau

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """`tau` times the ends of the activation's range, zero counted in."""
        activation = ACTIVATIONS[self.activation]
        return self.tau * min(activation.low, 0.0), self.tau * activation.high

    @property
    def guarantee(self) -> Guarantee:
        """Held by bounded activations and the fused solver."""
        if self.activation == "relu":
            return Guarantee(False, "relu has no upper end")
        caveat = solver_caveat(self.solver)
        return Guarantee(caveat is None, caveat or "every fused step is a weighted mean of x and tau f")

    def config(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {**super().config(), "time_constants": self.time_constants_range}


class NeuralODE(AffineODECell):
    """Neural ODE with inputs: `dx/dt = act(gamma_r x + gamma I + mu)`, by RK4 as the authors ran it. Nothing decays."""

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
        """The weights as matrices; no leak."""
        return AffineConstants(*self.matrices(), self.mu.new_zeros(1))

    def rate_and_drive(self, constants: AffineConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Zero and f."""
        return constants.leak, self.f(constants, sensed, state)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Infinite."""
        infinite = torch.full_like(self.mu, torch.inf)
        return infinite, infinite

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """None."""
        infinite = torch.full_like(self.mu, torch.inf)
        return -infinite, infinite

    @property
    def guarantee(self) -> Guarantee:
        """Not held."""
        return Guarantee(False, "a Neural ODE has no leak: its state can grow without end")


PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class GatedCell(Cell):
    """A discrete gated cell of torch's shape: weight_ih (G U, I), weight_hh (G U, U) and two biases (G U,).

    Parameters and their start, U(-1/sqrt(U), 1/sqrt(U)), are those of `torch.nn.LSTM` and `torch.nn.GRU`, so
    their state dicts fit after the layer's suffix `_l0` is taken off. Elapsed time plays no part.
    """

    gates: int
    program_form: ProgramForm
    uses_elapsed: ClassVar[bool] = False

    def __init__(self, inputs: int, plan: Plan | Wiring | int) -> None:
        super().__init__(inputs, plan)
        dense_only(self)
        rows, limit = self.gates * self.units, self.units**-0.5

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-limit, limit))

        self.weight_ih, self.weight_hh = draw(rows, self.inputs), draw(rows, self.units)
        self.bias_ih, self.bias_hh = draw(rows), draw(rows)

    def program(self) -> Program | None:
        """Compiled."""
        if type(self) not in (LSTM, GRU):
            return None
        return self.program_form.read(self, (self.units**2, self.inputs * self.units))

    def constants(self) -> None:
        """Nothing to prepare."""

    def sense(self, constants: None, inputs: Tensor) -> Tensor:
        """`W_ih x + b_ih`, (..., G U)."""
        return linear(inputs, self.weight_ih, self.bias_ih)

    def _gate_time_constants(self, gate: Tensor) -> Tensor:
        """Steps until a state that `sigmoid(gate)` multiplies each step falls to 1/e: `-1 / ln(sigmoid(gate))`."""
        return 1 / softplus(-gate)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Zero and infinity: gates lie in (0, 1)."""
        zero = self.bias_ih.new_zeros(self.units)
        return zero, zero + torch.inf

    def config(self) -> dict[str, Any]:
        """Nothing to set."""
        return {}


class LSTM(GatedCell):
    """Long short-term memory, as `torch.nn.LSTM`; the state is [h, c], (B, 2 U)::

    i, f, g, o = W_ih x + b_ih + W_hh h + b_hh
    c' = sigmoid(f) c + sigmoid(i) tanh(g),    h' = sigmoid(o) tanh(c')
    """

    gates = 4
    program_form = ProgramForm("lstm", (), PARAMETERS)

    @property
    def state_size(self) -> int:
        """Hidden state and memory, 2 U."""
        return 2 * self.units

    def _gates(self, sensed: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return (sensed + linear(h, self.weight_hh, self.bias_hh)).chunk(4, dim=-1)

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """One step, whatever the elapsed time."""
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = self._gates(sensed, h)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Steps in which the forget gate lets the memory fall to 1/e, (B, U)."""
        gates = self._gates(self.sense(None, inputs), state[:, : self.units])
        return self._gate_time_constants(gates[1])

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """`[-1, 1]` for h, none for c."""
        one = self.bias_ih.new_ones(self.units)
        high = torch.cat([one, one + torch.inf])
        return -high, high

    @property
    def guarantee(self) -> Guarantee:
        """Not held by the memory."""
        return Guarantee(False, "the memory c of an LSTM can grow with every step")


class GRU(GatedCell):
    """Gated recurrent unit, as `torch.nn.GRU`::

    r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)
    h' = (1 - z) tanh(W_in x + b_in + r (W_hn h + b_hn)) + z h
    """

    gates = 3
    program_form = ProgramForm("gru", (), PARAMETERS)

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """One step, whatever the elapsed time."""
        r, z, n = sensed.chunk(3, dim=-1)
        recurrent_r, recurrent_z, recurrent_n = linear(state, self.weight_hh, self.bias_hh).chunk(3, dim=-1)
        n = torch.tanh(n + torch.sigmoid(r + recurrent_r) * recurrent_n)
        z = torch.sigmoid(z + recurrent_z)
        return (1 - z) * n + z * state

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Steps in which the update gate lets the state fall to 1/e, (B, U)."""
        z = self.sense(None, inputs).chunk(3, dim=-1)[1] + linear(state, self.weight_hh, self.bias_hh).chunk(3, -1)[1]
        return self._gate_time_constants(z)

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """`[-1, 1]`."""
        one = self.bias_ih.new_ones(self.units)
        return -one, one

    @property
    def guarantee(self) -> Guarantee:
        """Held: a mean of the state and a tanh."""
        return Guarantee(True, "every step is a weighted mean of the state and a tanh")
