"""What a cell tells a compiled backend (kind, settings, synapses and parameters), and the calls of such a backend."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ncp_control.ops.motor import MotorMap

# A setting that chooses among names is the name's place here; the kernels number them in the same order.
ACTIVATIONS = ("sigmoid", "relu", "tanh", "hard_tanh")
CFC_MODES = ("default", "no_gate", "pure")


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


class AffineSettings(NamedTuple):
    """Settings of the kinds "affine" and "affine_rk4".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    :param unfolds: solver steps in one step of the sequence
    :param euler: 1 for explicit Euler, 0 for the fused solver; RK4 does not read it
    :param liquid: 1 where the activation f also speeds up the decay, as in NeuralLTC
    :param magnitude: 1 where it does so by |f| rather than by f
    :param activation: its place in `ACTIVATIONS`
    """

    synapses: int
    sensory: int
    unfolds: int
    euler: int
    liquid: int
    magnitude: int
    activation: int


class CfCSettings(NamedTuple):
    """Settings of the kind "cfc".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    :param mode: its place in `CFC_MODES`
    """

    synapses: int
    sensory: int
    mode: int


class DualSettings(NamedTuple):
    """Settings of the kind "dual".

    :param synapses: number of synapses among neurons
    :param sensory: number of synapses from inputs
    """

    synapses: int
    sensory: int


class GatedSettings(NamedTuple):
    """Settings of the kinds "lstm" and "gru".

    :param synapses: number of connections among units
    :param sensory: number of connections from inputs
    """

    synapses: int
    sensory: int


class CTGRUSettings(NamedTuple):
    """Settings of the kind "ctgru".

    :param synapses: number of connections among units
    :param sensory: number of connections from inputs
    :param scales: number of time scales
    """

    synapses: int
    sensory: int
    scales: int


Settings = LTCSettings | AffineSettings | CfCSettings | DualSettings | GatedSettings | CTGRUSettings

SETTINGS: dict[str, type[Settings]] = {
    "ltc": LTCSettings,
    "affine": AffineSettings,
    "affine_rk4": AffineSettings,
    "cfc": CfCSettings,
    "dual": DualSettings,
    "lstm": GatedSettings,
    "gru": GatedSettings,
    "ctgru": CTGRUSettings,
}


class Program(NamedTuple):
    """A cell in the form that a compiled backend reads.

    :param kind: which kernel runs it, a key of `SETTINGS`
    :param settings: the kind's settings
    :param indexes: int64 index tensors, in the kernel's order
    :param parameters: parameters in the kernel's order; None for one that the cell does without
    :param motor: the cell's outputs; None where they are not such a part of the state
    :param kept: what a backend may keep for as long as these very tensors stay as they are, by the backend's name;
        None where they were not looked at (see `ncp_control.ops.readable.settled`)
    """

    kind: str
    settings: Settings
    indexes: tuple[Tensor, ...]
    parameters: tuple[Tensor | None, ...]
    motor: MotorMap | None = None
    kept: dict[str, Any] | None = None


class Kernels(Protocol):
    """The two calls that a compiled backend makes: the module `launch` of `ops.cpu` or of `ops.gpu`."""

    def forward(
        self,
        program: Program,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        reset: Tensor | None,
        mask: Tensor | None,
        outputs: Tensor | None = None,
    ) -> Tensor:
        """Returns the states after every step, (B, T, N).

        :param outputs: (B, T, O), to be filled with the outputs as the program's motor map says; None for none
        """

    def backward(
        self,
        program: Program,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        reset: Tensor | None,
        mask: Tensor | None,
        states: Tensor,
        grad_states: Tensor | None,
        wanted: tuple[bool, bool],
        grad_outputs: Tensor | None = None,
    ) -> list[Tensor | None]:
        """Returns the gradients of inputs, state, elapsed, the motor map's scale and shift, then of every parameter.

        :param grad_states: the gradient of the states; it may be None where that of the outputs is given
        :param wanted: whether the gradients of inputs and of elapsed are wanted
        :param grad_outputs: the gradient of the outputs; where it is None, those of scale and shift are
        """
