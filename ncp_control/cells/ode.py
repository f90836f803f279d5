"""Cells whose state follows an ODE `dx/dt = drive(x, I) - rate(x, I) x`, with any of the solvers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from ncp_control.cells.base import Cell
from ncp_control.solvers import Span, check_solver, integrate
from ncp_control.wiring import Plan, Wiring


class ODECell(Cell):
    """A cell that integrates its ODE over the elapsed time, the inputs held.

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
        """`rate` and `drive` of the ODE at a state (B, N), each (B, N) or broadcast to it."""

    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Integrates the ODE over `elapsed` from `state`."""
        return integrate(self.solver, lambda x: self.rate_and_drive(constants, sensed, x), state, elapsed, self.unfolds)

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """`1 / rate`, the system's time constant, (B, N)."""
        constants = self.constants()
        rate, _ = self.rate_and_drive(constants, self.sense(constants, inputs), state)
        return (1 / rate).expand_as(state)

    def config(self) -> dict[str, Any]:
        """Solver and unfolds; subclasses add their own."""
        return {"solver": self.solver, "unfolds": self.unfolds}


def solver_caveat(solver: str) -> str | None:
    """Why this solver can break bounds that the exact solution keeps; None when it cannot."""
    if solver == "fused":
        return None
    if solver == "dopri5":
        return "the adaptive solver keeps the bounds only within its tolerance"
    return f"the {solver} solver keeps the bounds only while elapsed / unfolds is below the smallest time constant"
