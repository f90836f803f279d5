"""Cells whose state follows an ODE `dx/dt = drive(x, I) - rate(x, I) x`, with any of the solvers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from ncp_control.neurons.base import Cell
from ncp_control.solvers import Span, check_solver, integrate
from ncp_control.wiring import Plan, Wiring


class ODECell(Cell):
    """A cell that integrates its ODE over the elapsed time, during which the inputs stay constant.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused", "euler", "rk4" or "dopri5"
    :param unfolds: solver steps L for one step of the sequence, each `elapsed / L` long
    """

    def __init__(self, inputs: int, plan: Plan | Wiring | int, solver: str, unfolds: int) -> None:
        super().__init__(inputs, plan)
        check_solver(solver, unfolds)
        self.solver = solver
        self.unfolds = unfolds

    @abstractmethod
    def rate_and_drive(self, constants: Any, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `rate` and `drive` of the ODE at a state (B, N), each (B, N) or of a shape that broadcasts to it."""

    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Integrates the ODE over `elapsed` from `state`."""
        return integrate(self.solver, lambda x: self.rate_and_drive(constants, sensed, x), state, elapsed, self.unfolds)

    def advance_held(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span, held: Tensor) -> Tensor:
        """Integrates the ODE with the rate and the drive of held neurons at zero, so that no solver step moves them.

        A subclass that defines `advance` itself has its neurons held from step to step only.
        """
        if type(self).advance is not ODECell.advance:
            return super().advance_held(constants, sensed, state, elapsed, held)

        def field(x: Tensor) -> tuple[Tensor, Tensor]:
            rate, drive = self.rate_and_drive(constants, sensed, x)
            still = torch.zeros((), dtype=x.dtype, device=x.device)  # with rate and drive 0, dx/dt is 0
            return torch.where(held, still, rate), torch.where(held, still, drive)

        return integrate(self.solver, field, state, elapsed, self.unfolds)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns `1 / rate`, the time constant of the system, (B, N)."""
        constants = self.constants()
        rate, _ = self.rate_and_drive(constants, self.sense(constants, inputs), state)
        return (1 / rate).expand_as(state)

    def config(self) -> dict[str, Any]:
        """Returns the solver and the unfolds; subclasses add their own settings."""
        return {"solver": self.solver, "unfolds": self.unfolds}


def solver_caveat(solver: str) -> str | None:
    """Returns why a solver can break bounds that the exact solution keeps, or None if it cannot."""
    if solver == "fused":
        return None
    if solver == "dopri5":
        return "the adaptive solver keeps the bounds only within its tolerance"
    return f"the {solver} solver keeps the bounds only while elapsed / unfolds is below the smallest time constant"
