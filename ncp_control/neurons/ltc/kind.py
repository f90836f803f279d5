"""The program of an LTC: its settings, the shapes of its tensors, its C++ struct and its tables on a GPU."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.ops.kinds import Index, OnGPU, ProgramKind, Shapes, edges, sparse_struct


class LTCSettings(NamedTuple):
    """Settings of the kind "ltc".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    :param gaps: number of gap junctions
    :param unfolds: solver steps in one step of the sequence
    :param euler: 1 for explicit Euler, 0 for the fused solver
    """

    synapses: int
    sensory: int
    gaps: int
    unfolds: int
    euler: int


def shapes(settings: LTCSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like."""
    synapses, sensory, gaps = settings.synapses, settings.sensory, settings.gaps
    of_neurons = dict.fromkeys(("gleak_raw", "vleak", "cm_raw"), (size,))
    of_synapses = dict.fromkeys(("w_raw", "mu", "sigma", "E"), (synapses,))
    of_sensory = dict.fromkeys(("sensory_w_raw", "sensory_mu", "sensory_sigma", "sensory_E"), (sensory,))
    of_inputs = dict.fromkeys(("input_scale", "input_shift"), (features,))
    return Shapes(
        edges(settings, features, size, size) | {"gap_ends": Index((gaps, 2), size)},
        of_neurons | {"gap_raw": (gaps,)} | of_synapses | of_sensory | of_inputs,
        {"input_shift": (), "input_scale": ("input_shift",)},
    )


STRUCT = sparse_struct(
    LTCSettings,
    "gleak_raw vleak cm_raw gap_raw w_raw mu sigma E "
    "sensory_w_raw sensory_mu sensory_sigma sensory_E input_scale input_shift",
    ("gap_ends",),
)
ON_GPU = OnGPU(("gaps",), slots=512, registers=168)
KINDS = {"ltc": ProgramKind(LTCSettings, shapes, STRUCT, gpu=ON_GPU)}
