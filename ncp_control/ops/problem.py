"""What a scan is asked to do, checked once and brought into one form for every backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, SupportsFloat

import torch
from torch import Tensor

from ncp_control.ops.program import Program

Elapsed = float | Tensor
STRIDED = torch.strided


class ScanCell(Protocol):
    """What the scan needs of a cell (see `ncp_control.neurons.base.Cell`)."""

    inputs: int

    @property
    def state_size(self) -> int: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def initial_state(self, batch: int, *, dtype: torch.dtype | None, device: torch.device | None) -> Tensor: ...

    def refresh(self) -> None: ...

    def program(self) -> Program | None: ...

    def motor(self, states: Tensor) -> Tensor: ...

    def constants(self) -> Any: ...

    def sense(self, constants: Any, inputs: Tensor) -> Tensor: ...

    def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Elapsed) -> Tensor: ...

    def at_once(self, constants: Any, sensed: Tensor, state: Tensor) -> Tensor | None: ...


@dataclass(slots=True)
class ScanProblem:
    """One scan in normal form.

    :param cell: the cell
    :param inputs: (B, T, I), in the cell's float type
    :param state: state before the first step, (B, N)
    :param elapsed: time since the previous step: a float, a scalar tensor, or (B, T)
    :param reset: (B, T) bool or None; true sets the state to the initial state before that step
    :param mask: (B, T) bool or None; false holds the state through that step, after the reset if there is one
    :param program: the cell as compiled backends read it, or None
    :param with_outputs: whether the cell's outputs are wanted together with the states
    :param outputs: the outputs, (B, T, O), from a backend that computes them; otherwise None
    """

    cell: ScanCell
    inputs: Tensor
    state: Tensor
    elapsed: Elapsed
    reset: Tensor | None
    mask: Tensor | None
    program: Program | None
    with_outputs: bool = False
    outputs: Tensor | None = None

    def elapsed_at(self, t: int) -> Elapsed:
        """Returns the elapsed time of step `t`: a float, a scalar tensor, or (B, 1)."""
        if isinstance(self.elapsed, Tensor) and self.elapsed.dim() == 2:
            return self.elapsed[:, t, None]
        return self.elapsed


def make_problem(
    cell: ScanCell,
    inputs: Tensor,
    state: Tensor | None = None,
    elapsed: Elapsed = 1.0,
    reset: Tensor | None = None,
    mask: Tensor | None = None,
) -> ScanProblem:
    """Checks shapes and types, and converts every float to the cell's type."""
    check_tensors(inputs, state, reset, mask)
    if inputs.dim() != 3:
        raise ValueError(f"inputs must have shape (batch, time, features), got {tuple(inputs.shape)}")
    batch, time, features = inputs.shape
    if features != cell.inputs:
        raise ValueError(f"inputs have {features} features, but the cell was built for {cell.inputs}")
    if not inputs.is_floating_point():
        how = "dequantize" if inputs.is_quantized else "float"
        raise TypeError(f"inputs must be floating point, got {inputs.dtype}: convert them with inputs.{how}()")
    dtype, device = cell.dtype, inputs.device
    if state is None:
        state = cell.initial_state(batch, dtype=dtype, device=device)
    elif state.shape != (batch, cell.state_size):
        raise ValueError(f"state must have shape ({batch}, {cell.state_size}), got {tuple(state.shape)}")
    elif not state.is_floating_point():
        how = "dequantize" if state.is_quantized else "float"
        raise TypeError(f"state must be floating point, got {state.dtype}: convert it with state.{how}()")
    elif state.device != device:
        raise ValueError(f"the state is on {state.device} and the inputs are on {device}: move one with .to(device)")
    normal: Elapsed
    if type(elapsed) is float and elapsed >= 0:  # first, because a controller comes here in every step
        normal = elapsed
    elif isinstance(elapsed, Tensor):
        normal = _normal_elapsed(elapsed, batch, time, dtype, device)
    else:
        normal = _number(elapsed)
    if reset is not None:
        reset = _flags("reset", reset, batch, time, device)
    if mask is not None:  # NaN that fills the padding must not reach a gradient
        mask = _flags("mask", mask, batch, time, device)
        inputs = torch.where(mask[..., None], inputs, torch.zeros_like(inputs))
        if isinstance(normal, Tensor) and normal.dim() == 2:
            normal = torch.where(mask, normal, torch.zeros_like(normal))
    cell.refresh()  # before anything reads a parameter, such as the program below
    inputs = inputs if inputs.dtype == dtype else inputs.to(dtype)
    state = state if state.dtype == dtype else state.to(dtype)
    return ScanProblem(cell, inputs, state, normal, reset, mask, cell.program())


def check_tensors(inputs: object, state: object, reset: object, mask: object) -> None:
    """Refuses what is not a dense tensor, such as a NumPy array, or the pair of states of a `torch.nn.LSTM`."""
    for name, value in (("inputs", inputs), ("state", state), ("reset", reset), ("mask", mask)):
        if value is None and name != "inputs":
            continue
        if isinstance(value, Tensor):
            if value.layout is not STRIDED or value.is_nested:
                raise TypeError(_not_dense(name, value))
        else:
            kind = type(value)
            kind_name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
            advice = f": torch.as_tensor({name}) makes one" if kind_name == "numpy.ndarray" else ""
            raise TypeError(f"{name} must be a tensor, got {kind_name}{advice}")


def _not_dense(name: str, tensor: Tensor) -> str:
    """The refusal of a tensor that is sparse, nested or in a layout of MKL-DNN."""
    if tensor.is_nested:
        return f"{name} must be one dense tensor, got a nested one: pad the sequences, and pass a mask"
    return f"{name} must be a dense tensor, got the layout {tensor.layout}: {name}.to_dense() makes one"


def _number(elapsed: Any) -> float:
    """Checks an elapsed time that is not a tensor, and returns it as a float."""
    if isinstance(elapsed, bool) or not isinstance(elapsed, SupportsFloat):
        raise TypeError(f"elapsed must be a number or a tensor, got {type(elapsed).__name__}")
    if getattr(elapsed, "ndim", 0):
        raise TypeError("elapsed must be a number or a tensor, got an array: torch.as_tensor(elapsed) makes one")
    number = float(elapsed)
    if number < 0:
        raise ValueError(f"elapsed must not be negative, got {number}: time does not run backwards")
    return number


def _normal_elapsed(elapsed: Tensor, batch: int, time: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Checks an elapsed time, and returns it as a scalar tensor or in shape (B, T)."""
    if elapsed.layout is not torch.strided or elapsed.is_nested:
        raise TypeError(_not_dense("elapsed", elapsed))
    shape = tuple(elapsed.shape)
    if elapsed.dtype == torch.bool:
        raise TypeError("elapsed must be a span of time, got a tensor of bool: is it meant for reset or mask?")
    elapsed = elapsed.to(device=device, dtype=dtype)
    if shape == ():
        return elapsed
    if shape == (batch,):
        return elapsed[:, None].expand(batch, time)
    if shape == (batch, time):
        return elapsed
    raise ValueError(f"elapsed must be a number or have shape ({batch},) or ({batch}, {time}), got {shape}")


def _flags(name: str, flags: Tensor, batch: int, time: int, device: torch.device) -> Tensor:
    """Checks the shape of reset or mask, and returns it as bool."""
    if flags.shape != (batch, time):
        raise ValueError(f"{name} must have shape ({batch}, {time}), got {tuple(flags.shape)}")
    return flags.to(device=device, dtype=torch.bool)
