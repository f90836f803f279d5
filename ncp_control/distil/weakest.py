"""Which synapses of a student matter least: those without which its loss changes least."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncp_control.distil.smaller import Mask, check_prunable, places_of, strengths
from ncp_control.distil.student import Student
from ncp_control.distil.training import LabelledWindows

WINDOWS = 64


@torch.no_grad()
def losses_without(student: Student, windows: LabelledWindows, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns the loss without each of the sensory synapses (S,), and without each of the others (E,).

    Each synapse is cut by itself, and the loss computed on the same windows. Gradients would be faster, but a synapse
    that is cut is far from what they know: without the half of the synapses that these losses choose, an LTC circuit
    had a third of the loss that it had without the half that `|w dL/dw|` chose.

    :param student: the student, with the weights that gave the windows' states
    :param windows: what it has learnt from
    :param generator: chooses the windows
    """
    cell: Any = student.circuit.cell
    check_prunable(cell)
    features, states, starts, labels, counts = windows.batch(WINDOWS, WINDOWS // 4, WINDOWS // 8, generator)

    def loss() -> float:
        outputs, _ = student.outputs(features, states, starts)
        return float(student.loss(student.errors(outputs[counts], labels[counts])))

    student.policy.set_training_mode(False)
    found = []
    for strength, places in zip(strengths(cell), places_of(cell), strict=True):
        losses = torch.zeros(len(places), dtype=torch.float64)
        for k, place in enumerate(places):
            before = strength[..., place].clone()
            strength[..., place] = cell.absent
            losses[k] = loss()
            strength[..., place] = before
        found.append(losses)
    if cell.feeds_itself:
        found[1][torch.as_tensor(cell.wiring.synapses.source == cell.wiring.synapses.target)] = -torch.inf
    return found[0], found[1]


def without_weakest(sensory: Tensor, synapses: Tensor, count: int) -> tuple[Mask, Mask]:
    """Returns which sensory synapses stay, and which others, without the weakest of all.

    :param sensory: the loss without each sensory synapse, (S,)
    :param synapses: the loss without each other synapse, (E,)
    :param count: how many of all of them go
    """
    losses = torch.cat([sensory, synapses])
    stays = np.ones(len(losses), dtype=bool)
    stays[torch.argsort(losses, stable=True)[:count].numpy()] = False
    return stays[: len(sensory)], stays[len(sensory) :]
