"""The program of a DualLTC: its settings, the shapes of its tensors, its C++ struct and its tables on a GPU."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.neurons.layered.kind import ON_GPU
from ncp_control.ops.kinds import ProgramKind, Shapes, edges, sparse_struct


class DualSettings(NamedTuple):
    """Settings of the kind "dual".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    """

    synapses: int
    sensory: int


def shapes(settings: DualSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like."""
    weights = {"weight": (2, settings.synapses), "sensory_weight": (2, settings.sensory)}
    return Shapes(
        edges(settings, features, 2 * size, size),  # the old states of all neurons, then the new ones
        weights | {"bias": (2, size), "brake_raw": (size,), "log_tau": (2,)},
        {"brake_raw": ()},
    )


STRUCT = sparse_struct(DualSettings, "weight sensory_weight bias brake_raw log_tau")
KINDS = {"dual": ProgramKind(DualSettings, shapes, STRUCT, gpu=ON_GPU)}
