"""The base class of all cells: a kind of neuron, its parameters, its step, and the bounds that it guarantees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.neurons.parameters import refresh
from ncp_control.ops.motor import MotorMap
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import FullyConnected, Plan, Wiring


class IndexedModule(nn.Module):
    """A module with index tensors, which are buffers outside its state dict.

    The module keeps the arrays that they are made from. So it can make its index tensors again after something that
    casts every buffer, as `module.type(dtype)` does, or that loses their values, as the meta device and `to_empty` do.
    """

    def add_indexes(self, **arrays: Any) -> None:
        """Registers index tensors by their names."""
        self._add({name: np.asarray(array, dtype=np.int64) for name, array in arrays.items()})

    def add_constants(self, **arrays: Any) -> None:
        """Registers tensors of fixed numbers by their names, which have the floating-point type of the parameters."""
        self._add({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def _add(self, arrays: dict[str, np.ndarray]) -> None:
        self.index_arrays: dict[str, np.ndarray] = {**self.__dict__.get("index_arrays", {}), **arrays}
        for name, array in arrays.items():
            dtype = torch.int64 if array.dtype == np.int64 else torch.get_default_dtype()
            # A file has no such buffers: the wiring in it says the same.
            self.register_buffer(name, torch.tensor(array, dtype=dtype), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Moves or casts the module, then makes the index tensors again that this changed."""
        before = dict(self._buffers)
        applied = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self._index_names():
            after = self._buffers[name]
            if after is not None and after is not before[name]:
                self._make(name, after)
        return applied

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        """Loads parameters, then lets the index tensors follow those that `assign=True` put on another device."""
        super()._load_from_state_dict(*arguments, **options)
        parameter = next(self.parameters(), None)
        for name in self._index_names():
            index = self._buffers[name]
            if index is None or parameter is None:
                continue
            if index.device != parameter.device or (index.is_floating_point() and index.dtype != parameter.dtype):
                self._make(name, parameter)

    def _index_names(self) -> list[str]:
        """The names of the index tensors; none for a whole module that an earlier version pickled."""
        return [name for name in self.__dict__.get("index_arrays", {}) if name in self._buffers]

    def _make(self, name: str, like: Tensor) -> None:
        """Makes an index tensor again, on the device of another tensor; fixed numbers also take that tensor's type."""
        array = self.index_arrays[name]
        dtype = torch.int64 if array.dtype == np.int64 else like.dtype
        self._buffers[name] = torch.tensor(array, dtype=dtype, device=like.device)


class Currents(NamedTuple):
    """What flows through every synapse in each of T steps; above zero it pushes the target up.

    :param sensory: through the sensory synapses, (T, S), in the wiring's order
    :param recurrent: through the synapses between neurons, (T, E), in the wiring's order
    :param gap: through the gap junctions, into the first neuron of each, (T, G)
    """

    sensory: Tensor
    recurrent: Tensor
    gap: Tensor


def without_gaps(wiring: Wiring, sensory: Tensor, recurrent: Tensor) -> Currents:
    """Returns the currents of a cell that ignores the wiring's gap junctions: nothing flows through those."""
    return Currents(sensory, recurrent, sensory.new_zeros(len(sensory), len(wiring.gap_junctions)))


class Guarantee(NamedTuple):
    """Whether a cell's states and time constants provably stay inside their bounds, and why.

    :param holds: whether the bounds hold for every input and every elapsed time
    :param reason: why they do or do not, in one sentence
    """

    holds: bool
    reason: str


class Cell(IndexedModule, ABC):
    """A recurrent cell over a wiring.

    A step has three parts, so that a scan can do each of them as rarely as possible:

    - `constants()` prepares what depends on the parameters alone, once for a scan;
    - `sense(constants, inputs)` computes what depends on the inputs alone, once for the whole sequence;
    - `advance(constants, sensed, state, elapsed)` does the rest, at every step.

    A cell that does not know something says so: `currents` returns None, a time constant is NaN, and a bound is
    infinite (0 for the lower bound of a time constant).

    :param inputs: number of input features I
    :param plan: a plan (`AutoNCP(40, 16)`), a built `Wiring`, or a number of fully connected neurons
    :cvar uses_elapsed: whether a step depends on how much time has passed
    :cvar uses_gap_junctions: whether anything flows through gap junctions
    :cvar always_dense: whether every wiring but a fully connected one is refused
    :cvar feeds_itself: whether every neuron feeds itself, with or without such a synapse
    :cvar belongs: the parameters whose last dimension has a number for each of the "neurons", "synapses", "sensory"
        synapses, "gap_junctions", "inputs" or "motor" neurons. The first ones of "synapses" and "sensory" are the
        weights by which synapses are pruned and grow; without "synapses" the cell cannot be pruned
    :cvar absent: the weight of a synapse that carries nothing
    """

    uses_elapsed: ClassVar[bool] = True
    uses_gap_junctions: ClassVar[bool] = False
    always_dense: ClassVar[bool] = False
    feeds_itself: ClassVar[bool] = False
    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    absent: ClassVar[float] = 0.0

    def __init__(self, inputs: int, plan: Plan | Wiring | int) -> None:
        super().__init__()
        self.wiring = as_wiring(inputs, plan)
        self.inputs = self.wiring.inputs
        self.units = self.wiring.units
        self.outputs = self.wiring.outputs
        self.motor_start = self.wiring.motor.start

    @property
    def state_size(self) -> int:
        """How many numbers the state of one sequence has: N, one for each neuron, unless the cell keeps more."""
        return self.units

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the parameters, which is also the state's."""
        for parameter in self._parameters.values():
            if parameter is not None:
                return parameter.dtype
        return self._first_parameter().dtype

    def _first_parameter(self) -> Tensor:
        """A parameter of the cell or of a part of it; `torch.nn.DataParallel` gives its replicas copies instead."""
        named: Iterator[dict[str, Tensor | None]] = (
            {**part._parameters, **vars(part).get("_former_parameters", {})} for part in self.modules()
        )
        return next(parameter for own in named for parameter in own.values() if parameter is not None)

    def initial_state(
        self, batch: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> Tensor:
        """Returns the state before the first step and after a reset: zeros, (batch, N)."""
        device = self._first_parameter().device if device is None else device
        return torch.zeros(batch, self.state_size, dtype=dtype or self.dtype, device=device)

    def forward(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raises a TypeError: a cell alone does one step, and `RNN` runs it over sequences."""
        raise TypeError(
            f"{type(self).__name__} is a cell, which does not run by itself: wrap it, nc.RNN(cell), to run it over "
            "sequences, or call cell.step for one step"
        )

    def step(self, inputs: Tensor, state: Tensor, elapsed: Span = 1.0) -> Tensor:
        """Returns the state (B, N) one step later.

        :param inputs: (B, I)
        :param state: (B, N)
        :param elapsed: time since the previous step, a number or (B,)
        """
        self.refresh()
        constants = self.constants()
        return self.advance(constants, self.sense(constants, inputs), state, as_column(elapsed))

    def refresh(self) -> None:
        """Computes pruned parameters anew from the tensors that stand for them, before a scan or a step reads them."""
        refresh(self)

    def motor(self, states: Tensor) -> Tensor:
        """Returns the outputs (..., O), which are the motor neurons of states (..., N)."""
        return states.narrow(-1, self.motor_start, self.outputs)

    def motor_map(self) -> MotorMap | None:
        """Returns `motor` as the map that compiled backends know, or None for a cell that defines it otherwise."""
        # A subclass, or an instance, may have a `motor` of its own.
        is_plain = getattr(self.motor, "__func__", None) is Cell.motor
        return MotorMap(self.motor_start, self.outputs) if is_plain else None

    def neurons(self, states: Tensor) -> Tensor:
        """Returns one number for each neuron, (..., units): h of an LSTM, the sum of the memories of a CT-GRU."""
        return states[..., : self.units]

    def program(self) -> Program | None:
        """Returns the cell in the form that compiled backends read, or None if only the reference scan can run it."""
        return None

    @abstractmethod
    def constants(self) -> Any:
        """Returns the effective parameters, in the form that the step uses."""

    @abstractmethod
    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        """Returns what inputs (..., I) contribute to the step whatever the state is, (..., S)."""

    @abstractmethod
    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Returns the next state (B, N).

        :param constants: what `constants` returned
        :param sensed: what `sense` returned for the step's inputs, (B, S)
        :param state: (B, N)
        :param elapsed: time since the previous step, a number, a scalar tensor or (B, 1)
        """

    def at_once(self, constants: Any, sensed: Tensor, state: Tensor) -> Tensor | None:
        """Returns the states after every step (B, T, N) of a sequence without resets, or None.

        A cell returns them if it can compute all steps together, faster than one after another.

        :param sensed: what `sense` returned for the whole sequence, (B, T, S)
        :param state: the state before the first step, (B, N)
        """
        return None

    def advance_held(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Span, held: Tensor) -> Tensor:
        """Returns the next state (B, N) while some neurons keep the values they have in `state`.

        This method puts the held neurons back at the end of the step. Cells whose neurons influence each other within
        a step override it, so that no neuron sees a held one move.

        :param held: (N,) bool, true for the neurons that are held; the other arguments are those of `advance`
        """
        return torch.where(held, state, self.advance(constants, sensed, state, elapsed))

    def check_holdable(self) -> None:
        """Raises a ValueError if the neurons of this cell cannot be held."""
        if self.state_size != self.units:
            raise ValueError(
                f"{type(self).__name__} keeps more state than one number a neuron, so its neurons cannot be held"
            )

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Changes the parameters so that some synapses carry nothing (see `without_synapses`, which makes a copy).

        A cell whose parameters do not belong to single synapses raises a ValueError, as this class does.
        """
        raise ValueError(f"the synapses of {type(self).__name__} cannot be cut one by one")

    def inherit(self, larger: Any, neurons: Any) -> None:
        """Takes over what parameters alone do not say from a larger circuit of the same kind: here, nothing.

        :param larger: the circuit of which this one has some neurons, with the same parameters
        :param neurons: the numbers of these neurons in it
        """

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents | None:
        """Returns what flows through every synapse in each of T steps, or None if the cell does not know.

        :param inputs: (T, I)
        :param before: the states before the steps, (T, N)
        :param after: the states after the steps, (T, N)
        """
        return None

    @abstractmethod
    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns the momentary time constant of every neuron, (B, units), NaN where it is not known.

        :param inputs: (B, I)
        :param state: (B, N)
        """

    @abstractmethod
    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the lower and the upper bound of every neuron's time constant, each (units,)."""

    @abstractmethod
    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the lower and the upper bound, each (N,), of every state that starts inside them.

        The initial state is inside.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Whether these bounds hold for every input and every elapsed time."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, except for the inputs and the wiring, as JSON values."""

    def extra_repr(self) -> str:
        """Returns what `print(cell)` shows."""
        settings = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{self.inputs}, {self.wiring!r}, {settings}"


def as_wiring(inputs: int, plan: Plan | Wiring | int) -> Wiring:
    """Returns the wiring that a plan, a built wiring or a number of fully connected neurons stands for."""
    if isinstance(plan, Wiring):
        if plan.inputs != inputs:
            raise ValueError(f"the wiring has {plan.inputs} inputs, but the cell was asked for {inputs}")
        return plan
    if isinstance(plan, Plan):
        return plan.build(inputs)
    if isinstance(plan, int) and not isinstance(plan, bool):  # True is an int to Python
        return FullyConnected(plan).build(inputs)
    raise TypeError(f"expected a plan such as AutoNCP(40, 16), a Wiring or a number of neurons, got {plan!r}")


def as_column(elapsed: Span) -> Span:
    """Returns a time for each row, (B,), as (B, 1); a number or a scalar tensor stays as it is."""
    if isinstance(elapsed, Tensor) and elapsed.dim() == 1:
        return elapsed[:, None]
    return elapsed


def dense_only(cell: Cell) -> None:
    """Refuses a sparse wiring for a cell that has no sparse form."""
    possible = cell.units * (cell.inputs + cell.units)
    if cell.wiring.existing_synapses != possible:
        name = type(cell).__name__
        raise ValueError(f"{name} has no sparse form: give it a number of neurons or FullyConnected(units, outputs)")
