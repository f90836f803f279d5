"""Which solvers keep the bounds of Theorem 2, and up to which step.

The theorem's proof takes the derivative at a bound as that of an explicit Euler step (S10). A state that starts inside
the bounds leaves them by such a step where it is longer than the time constant, however right the derivative points.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ncp_control.ops import scan
from scripts.paper.bounds.driven import ROUNDING, Contestant, lost_is_infinite

SOLVERS = {"fused": "fused", "euler": "explicit Euler", "rk4": "RK4"}
RATIOS = tuple(10 ** (k / 8) for k in range(-4, 17))  # of the step to the shortest time constant, 0.3 to 100


class Overshoot(NamedTuple):
    """How far states leave their bounds.

    :param ratio: the solver's step over the shortest time constant that the bounds allow
    :param beyond: the largest distance of a state from its bounds, 0 inside; infinite after an overflow
    """

    ratio: float
    beyond: float


@torch.no_grad()
def overshoots(contestant: Contestant, solver: str, rows: int, steps: int, seed: int) -> list[Overshoot]:
    """For every ratio, under random inputs of the size it knows."""
    cell: Any = copy.deepcopy(contestant.cell)
    cell.solver = solver
    inputs = torch.randn(rows, steps, cell.inputs, generator=torch.Generator().manual_seed(seed))
    shortest = float(cell.time_constant_bounds()[0].min())
    low, high = cell.state_bounds()
    slack = ROUNDING * torch.finfo(low.dtype).eps
    found = []
    for ratio in RATIOS:
        states = lost_is_infinite(scan(cell, inputs, elapsed=ratio * shortest * cell.unfolds))
        beyond = torch.maximum(low - states - slack * low.abs().clamp(min=1), states - high - slack * high.clamp(min=1))
        found.append(Overshoot(ratio, max(float(beyond.max()), 0.0)))
    return found


def leaves_at(found: Sequence[Overshoot]) -> float | None:
    """The smallest ratio at which states leave the bounds; None where none does."""
    return next((one.ratio for one in found if one.beyond > 0), None)
