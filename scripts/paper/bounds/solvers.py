"""Which solvers keep the bounds of Theorem 2, and up to which step.

The theorem's proof reads the derivative at a bound as an explicit Euler step (S10). But an Euler step that is longer
than the time constant can carry a state from inside the bounds to the outside, although the derivative points inwards.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ncp_control.ops import scan
from scripts.paper.bounds.driven import ROUNDING, Contestant, lost_is_infinite

SOLVERS = {"fused": "fused", "euler": "explicit Euler", "rk4": "RK4"}
RATIOS = tuple(10 ** (k / 8) for k in range(-4, 17))  # step over shortest time constant, 0.3 to 100


class Overshoot(NamedTuple):
    """How far states leave their bounds.

    :param ratio: the solver's step over the shortest time constant that the bounds allow
    :param beyond: the largest distance of a state from its bounds, 0 inside; infinite after an overflow
    """

    ratio: float
    beyond: float


@torch.no_grad()
def overshoots(contestant: Contestant, solver: str, rows: int, steps: int, seed: int) -> list[Overshoot]:
    """Runs a network with every ratio of RATIOS, under random inputs as large as those of its training."""
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
    """Returns the smallest ratio at which states leave the bounds, or None."""
    return next((one.ratio for one in found if one.beyond > 0), None)
