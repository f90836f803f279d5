"""A network over a sequence of inputs, each held for a unit of time, as one ODE for general solvers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ncp_control.neurons import CTRNN, LTC, NeuralLTC, NeuralODE
from ncp_control.neurons.ode import ODECell

CELLS: dict[str, Any] = {"NeuralLTC": NeuralLTC, "LTC": LTC, "CT-RNN": CTRNN, "Neural ODE": NeuralODE}
INPUTS = 8


class Problem(NamedTuple):
    """A network, its inputs (B, T, I), its first state (B, N) and the target of its last state (B, N)."""

    cell: ODECell
    inputs: Tensor
    state: Tensor
    target: Tensor

    def loss(self, state: Tensor) -> Tensor:
        """Returns `sum (x - target)^2 / 2`; a mean would be small beside an absolute tolerance."""
        return 0.5 * (state - self.target).square().sum()


def make_problem(
    cell: str,
    steps: int,
    seed: int,
    *,
    tau: float = 1.0,
    unfolds: int = 6,
    units: int = 32,
    batch: int = 16,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """Makes a dense network whose intrinsic time constants are all `tau`; a Neural ODE has none.

    The same seed gives the same numbers in both float types, and a longer sequence begins with the shorter one.
    """
    settings: dict[str, Any] = {} if cell == "Neural ODE" else {"time_constants": (tau, tau)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = CELLS[cell](INPUTS, units, solver="fused", unfolds=unfolds, **settings)
        state, target = torch.rand(2, batch, units) - 0.5
        inputs = torch.stack([torch.randn(batch, INPUTS) for _ in range(steps)], dim=1)
    return Problem(made.to(dtype), inputs.to(dtype), state.to(dtype), target.to(dtype))


class GivenUp(RuntimeError):
    """A backward solve takes too many evaluations."""


class Field:
    """The right-hand side of the ODE over the inputs `first` to `last`; it counts its evaluations.

    After `most` evaluations it raises GivenUp.

    :param problem: the network and its inputs
    :param constants: the cell's effective parameters
    :param first: the first input
    :param last: the last input
    """

    def __init__(self, problem: Problem, constants: Any, first: int, last: int) -> None:
        self.problem, self.constants = problem, constants
        self.first, self.last = first, last
        self.evaluations = 0
        self.most: float = float("inf")

    def __call__(self, t: Tensor, state: Tensor) -> Tensor:
        """Returns `drive - rate x` at time `t`, (B, N)."""
        self.evaluations += 1
        if self.evaluations > self.most:
            raise GivenUp
        cell = self.problem.cell
        # At the end of its span the last input still holds, although the time rounds down to the next one.
        now = min(max(int(t), self.first), self.last)
        rate, drive = cell.rate_and_drive(
            self.constants, cell.sense(self.constants, self.problem.inputs[:, now]), state
        )
        return drive - rate * state

    def options(self, solver: str) -> dict[str, Any]:
        """Returns the solver's options for steps that end where an input ends, and see the input of their own side."""
        if solver == "dopri5":
            return {"jump_t": torch.arange(self.first + 1, self.last + 1, dtype=torch.float64)}
        steps = (self.last + 1 - self.first) * self.problem.cell.unfolds

        def grid(_: Any, __: Tensor, times: Tensor) -> Tensor:
            return times[0] + torch.arange(steps + 1, dtype=times.dtype) * (times[-1] - times[0]) / steps

        return {"perturb": True, "grid_constructor": grid}
