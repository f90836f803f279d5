"""The program of NeuralLTC, CTRNN and NeuralODE: settings, shapes, C++ struct and tables on a GPU."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.ops.kinds import OnGPU, ProgramKind, Shapes, edges, sparse_struct

# A setting that chooses among names is the name's place here; the kernels number them in the same order.
ACTIVATION_NAMES = ("sigmoid", "relu", "tanh", "hard_tanh")


class AffineSettings(NamedTuple):
    """Settings of the kinds "affine" and "affine_rk4".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    :param unfolds: solver steps in one step of the sequence
    :param euler: 1 for explicit Euler, 0 for the fused solver; RK4 does not read it
    :param liquid: 1 where the activation f also speeds up the decay, as in NeuralLTC
    :param magnitude: 1 where it does so by |f| rather than by f
    :param activation: its place in `ACTIVATION_NAMES`
    """

    synapses: int
    sensory: int
    unfolds: int
    euler: int
    liquid: int
    magnitude: int
    activation: int


def shapes(settings: AffineSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like."""
    neurons = dict.fromkeys(("mu", "tau_raw", "A"), (size,))
    return Shapes(
        edges(settings, features, size, size),
        {"gamma": (settings.sensory,), "gamma_r": (settings.synapses,)} | neurons,
        {} if settings.liquid else {"A": (), "tau_raw": ("A",)},
    )


STRUCT = sparse_struct(AffineSettings, "gamma gamma_r mu tau_raw A")
KINDS = {
    "affine": ProgramKind(AffineSettings, shapes, STRUCT, gpu=OnGPU((), slots=512, registers=168)),
    "affine_rk4": ProgramKind(AffineSettings, shapes, STRUCT),
}
