"""What a cell tells a compiled backend (kind, settings, synapses and parameters), and the calls of such a backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ncp_control.ops.motor import MotorMap


class Settings(Protocol):
    """The settings of a program: whole numbers by their names, a named tuple of the program's kind."""

    @property
    def synapses(self) -> int:
        """The number of synapses among neurons."""

    @property
    def sensory(self) -> int:
        """The number of synapses from inputs."""

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...

    def __hash__(self) -> int: ...


class Program(NamedTuple):
    """A cell in the form that a compiled backend reads.

    :param kind: which kernel runs it (see `ncp_control.ops.kinds`)
    :param settings: the kind's settings
    :param indexes: int64 index tensors, in the kernel's order
    :param parameters: parameters in the kernel's order; None for one that the cell does without
    :param motor: the cell's outputs; None if they are not such a part of the state
    :param kept: what a backend may keep for as long as these very tensors stay as they are, by the backend's name;
        None if they were not looked at (see `ncp_control.ops.readable.settled`)
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

        :param grad_states: the gradient of the states; it may be None if that of the outputs is given
        :param wanted: whether the gradients of inputs and of elapsed are wanted
        :param grad_outputs: the gradient of the outputs; where it is None, those of scale and shift are
        """
