"""What every cell is: parameters of one kind of neuron, one step of time, and what is known of its bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import FullyConnected, Plan, Wiring


class Guarantee(NamedTuple):
    """Whether a cell's states and time constants provably stay inside their bounds, and why."""

    holds: bool
    reason: str


class Cell(nn.Module, ABC):
    """A recurrent cell over a wiring.

    A step is cut in three, so that a scan can do each part once:

    - `constants()`: what depends on parameters alone (once a scan),
    - `sense(constants, inputs)`: what depends on inputs alone (once for the whole sequence),
    - `advance(constants, sensed, state, elapsed)`: the rest, step by step.

    :param inputs: number of input features I
    :param plan: a plan (`AutoNCP(40, 16)`), a built `Wiring`, or a number of fully connected neurons
    :cvar uses_elapsed: whether a step depends on how much time has passed
    """

    uses_elapsed: ClassVar[bool] = True

    def __init__(self, inputs: int, plan: Plan | Wiring | int) -> None:
        super().__init__()
        self.wiring = as_wiring(inputs, plan)
        self.inputs = self.wiring.inputs
        self.units = self.wiring.units
        self.outputs = self.wiring.outputs
        self.motor_start = self.wiring.motor.start

    @property
    def state_size(self) -> int:
        """Numbers of state a row: N, one a neuron unless the cell keeps more."""
        return self.units

    @property
    def dtype(self) -> torch.dtype:
        """The float type of the parameters, and so of the state."""
        for parameter in self._parameters.values():
            if parameter is not None:
                return parameter.dtype
        return next(self.parameters()).dtype

    def initial_state(
        self, batch: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> Tensor:
        """The state before the first step and after a reset: zeros, (batch, N)."""
        device = next(self.parameters()).device if device is None else device
        return torch.zeros(batch, self.state_size, dtype=dtype or self.dtype, device=device)

    def step(self, inputs: Tensor, state: Tensor, elapsed: Span = 1.0) -> Tensor:
        """The state (B, N) one step later.

        :param inputs: (B, I)
        :param state: (B, N)
        :param elapsed: time since the previous step, a number or (B,)
        """
        constants = self.constants()
        return self.advance(constants, self.sense(constants, inputs), state, as_column(elapsed))

    def motor(self, states: Tensor) -> Tensor:
        """The outputs (..., O) of states (..., N): the motor neurons."""
        return states.narrow(-1, self.motor_start, self.outputs)

    def neurons(self, states: Tensor) -> Tensor:
        """One number a neuron, (..., units), of states (..., N): h of an LSTM, the sum of a CT-GRU's memories."""
        return states[..., : self.units]

    def program(self) -> Program | None:
        """The cell in the form that compiled backends read; None for a cell that only the reference can run."""
        return None

    @abstractmethod
    def constants(self) -> Any:
        """Effective parameters, in the form the step uses."""

    @abstractmethod
    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        """What inputs (..., I) contribute, whatever the state: (..., S)."""

    @abstractmethod
    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """The next state (B, N) from sensed (B, S) and state (B, N); elapsed is a number, a scalar or (B, 1)."""

    @abstractmethod
    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The momentary time constant of every neuron at inputs (B, I) and state (B, N): (B, units)."""

    @abstractmethod
    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bound of every neuron's time constant, each (units,)."""

    @abstractmethod
    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bound of every state that starts inside them, each (N,); the initial state is inside."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Whether these bounds hold for every input and every elapsed time."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments other than inputs and wiring, as JSON values."""

    def extra_repr(self) -> str:
        """Shown by `print(cell)`."""
        settings = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{self.inputs}, {self.wiring!r}, {settings}"


def as_wiring(inputs: int, plan: Plan | Wiring | int) -> Wiring:
    """Builds a plan, passes a wiring with that many inputs, and makes an int fully connected."""
    if isinstance(plan, Wiring):
        if plan.inputs != inputs:
            raise ValueError(f"the wiring has {plan.inputs} inputs, but the cell was asked for {inputs}")
        return plan
    if isinstance(plan, Plan):
        return plan.build(inputs)
    if isinstance(plan, int) and not isinstance(plan, bool):
        return FullyConnected(plan).build(inputs)
    raise TypeError(f"expected a plan such as AutoNCP(40, 16), a Wiring or a number of neurons, got {plan!r}")


def as_column(elapsed: Span) -> Span:
    """Turns per-row times (B,) into (B, 1); numbers and scalars pass."""
    if isinstance(elapsed, Tensor) and elapsed.dim() == 1:
        return elapsed[:, None]
    return elapsed


def dense_only(cell: Cell) -> None:
    """Refuses a sparse wiring for a cell that has no sparse form."""
    possible = cell.units * (cell.inputs + cell.units)
    if len(cell.wiring.sensory) + len(cell.wiring.synapses) != possible:
        name = type(cell).__name__
        raise ValueError(f"{name} has no sparse form: give it a number of neurons or FullyConnected(units, outputs)")


class ProgramForm:
    """Reads a cell's program from its buffers and parameters, by their names in the kernel's order.

    A parameter that the cell does without is registered as None. One of a submodule is named as in the state dict,
    such as "detect.weight".
    """

    def __init__(self, kind: str, indexes: tuple[str, ...], parameters: tuple[str, ...]) -> None:
        self.kind = kind
        self.indexes = indexes
        self.parameters = [name.rpartition(".")[::2] for name in parameters]

    def read(self, cell: Cell, settings: tuple[int, ...]) -> Program:
        """The program of `cell` as its buffers and parameters are now."""
        buffers, own, modules = cast("dict[str, Tensor]", cell._buffers), cell._parameters, cell._modules
        indexes = tuple([buffers[name] for name in self.indexes])
        parameters = [getattr(modules[module], name) if module else own[name] for module, name in self.parameters]
        return Program(self.kind, settings, indexes, tuple(parameters))


def first_of_target(target: Any, units: int) -> np.ndarray:
    """For synapses sorted by target, where each neuron's begin: synapses into j are start[j] .. start[j + 1]."""
    return np.searchsorted(np.asarray(target), np.arange(units + 1))


def index_buffers(module: nn.Module, **arrays: Any) -> None:
    """Registers index arrays as buffers that follow the device but stay out of the state dict."""
    for name, array in arrays.items():
        module.register_buffer(name, torch.tensor(array, dtype=torch.long), persistent=False)
