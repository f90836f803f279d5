"""The program of a CfC: its settings, the shapes of its tensors, its C++ struct and its tables on a GPU."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.neurons.layered.kind import ON_GPU
from ncp_control.ops.kinds import ProgramKind, Shapes, edges, sparse_struct

# Each mode needs so many linear maps of x = [inputs, state]. The kernels number the modes in this order.
MODES = {"default": 4, "no_gate": 4, "pure": 1}
MODE_NAMES = tuple(MODES)


class CfCSettings(NamedTuple):
    """Settings of the kind "cfc".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    :param mode: its place in `MODE_NAMES`
    """

    synapses: int
    sensory: int
    mode: int


def shapes(settings: CfCSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like."""
    synapses, sensory, mode = settings.synapses, settings.sensory, MODE_NAMES[settings.mode]
    maps = MODES[mode]
    return Shapes(
        edges(settings, features, 2 * size, size),  # the old states of all neurons, then the new ones
        {"weight": (maps, synapses), "sensory_weight": (maps, sensory), "bias": (maps, size)}
        | dict.fromkeys(("w_tau", "A"), (size,)),
        {} if mode == "pure" else {"A": ("w_tau",)},
    )


STRUCT = sparse_struct(CfCSettings, "weight sensory_weight bias w_tau A")
KINDS = {
    "cfc": ProgramKind(CfCSettings, shapes, STRUCT, gpu=ON_GPU),
}
