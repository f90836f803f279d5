"""The recurrent scan in plain torch: the specification that every faster backend is held to."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.ops.problem import ScanProblem


def available() -> tuple[bool, str]:
    """Every machine has it."""
    return True, "plain torch"


def supports(problem: ScanProblem) -> tuple[bool, str]:
    """It runs every problem."""
    return True, "plain torch: every cell, device and float type"


def run(problem: ScanProblem) -> Tensor:
    """Runs `problem` in a loop over time, after what depends on the inputs alone is computed for the whole sequence.

    :return: states after every step, (B, T, N)
    """
    cell, state = problem.cell, problem.state
    constants = cell.constants()
    sensed = cell.sense(constants, problem.inputs)
    if problem.reset is None and problem.mask is None:
        together = cell.at_once(constants, sensed, state)
        if together is not None:
            return together
    initial = cell.initial_state(state.shape[0], dtype=state.dtype, device=state.device)
    states = []
    for t in range(problem.inputs.shape[1]):
        if problem.reset is not None:
            state = torch.where(problem.reset[:, t, None], initial, state)
        moved = cell.advance(constants, sensed[:, t], state, problem.elapsed_at(t))
        if problem.mask is not None:
            moved = torch.where(problem.mask[:, t, None], moved, state)
        state = moved
        states.append(state)
    if not states:  # torch.stack takes no empty list
        return state.new_zeros(state.shape[0], 0, state.shape[1])
    return torch.stack(states, dim=1)
