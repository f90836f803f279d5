"""A sequence module over any cell."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor, nn

from ncp_control.cells import Cell
from ncp_control.ops import check_backend, scan
from ncp_control.ops.problem import check_tensors
from ncp_control.wiring import Wiring


class RNN(nn.Module):
    """Runs a cell over sequences, batch first, in the manner of `torch.nn.LSTM`.

    Example::

        rnn = RNN(LTC(8, AutoNCP(40, 16)))
        outputs, state = rnn(torch.randn(64, 128, 8))  # (64, 128, 16), (64, 40)
        outputs, state, states = rnn(inputs, state, elapsed=dt, reset=starts, states=True)

    :param cell: any cell of this package
    :param backend: "auto" (default), or the name of a backend of `ncp_control.ops`, which then never falls back
    :param check_finite: refuse NaN and infinity in inputs, state and elapsed, and a negative elapsed, naming the
        position (costs a pass over the inputs, and a synchronisation on a GPU)
    """

    def __init__(self, cell: Cell, backend: str = "auto", check_finite: bool = False) -> None:
        super().__init__()
        if not isinstance(cell, Cell):
            raise TypeError(f"RNN needs a cell such as LTC(8, 32), got {type(cell).__name__}")
        check_backend(backend)
        self.cell = cell
        self.backend = backend
        self.check_finite = check_finite

    @property
    def wiring(self) -> Wiring:
        """The cell's wiring."""
        return self.cell.wiring

    @overload
    def forward(
        self,
        inputs: Tensor,
        state: Tensor | None = ...,
        elapsed: float | Tensor = ...,
        reset: Tensor | None = ...,
        mask: Tensor | None = ...,
        states: Literal[False] = ...,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def forward(
        self,
        inputs: Tensor,
        state: Tensor | None = ...,
        elapsed: float | Tensor = ...,
        reset: Tensor | None = ...,
        mask: Tensor | None = ...,
        *,
        states: Literal[True],
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def forward(
        self,
        inputs: Tensor,
        state: Tensor | None = None,
        elapsed: float | Tensor = 1.0,
        reset: Tensor | None = None,
        mask: Tensor | None = None,
        states: bool = False,
    ) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]:
        """Runs over whole sequences.

        :param inputs: (B, T, I), or (T, I) for one sequence; any float type, computed in the parameters' type
        :param state: state before the first step, (B, N), or (N,); None starts from the initial state
        :param elapsed: time since the previous step, not negative: a number, (B,), or (B, T); for one sequence (T,).
            An LSTM and a GRU know of steps alone
        :param reset: (B, T) bool, or (T,); true starts that row anew before that step
        :param mask: (B, T) bool, or (T,); false marks padding, through which state and outputs hold still, so that
            the returned state is each row's at its last true step (a reset there still resets)
        :param states: also return every neuron's state after every step
        :return: outputs (B, T, O) and the last state (B, N), and with `states` all states (B, T, N)
        """
        check_tensors(inputs, state, reset, mask)
        if self.check_finite:
            check_values(self.cell.dtype, inputs, state, elapsed, mask)
        single = inputs.dim() == 2
        if single:
            inputs, state, elapsed, reset, mask = _batch_of_one(inputs, state, elapsed, reset, mask)
        trajectory = scan(self.cell, inputs, state, elapsed, reset, mask, backend=self.backend)
        if trajectory.shape[1]:
            last = trajectory.select(1, -1)
        elif state is None:
            last = self.cell.initial_state(inputs.shape[0], device=inputs.device)
        else:
            last = state.to(trajectory.dtype)
        outputs = self.cell.motor(trajectory)
        if single:
            outputs, last, trajectory = outputs[0], last[0], trajectory[0]
        return (outputs, last, trajectory) if states else (outputs, last)

    def step(self, inputs: Tensor, state: Tensor, elapsed: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """One step: outputs (B, O) and next state (B, N) from inputs (B, I) and state (B, N)."""
        state = scan(self.cell, inputs[:, None], state, elapsed, backend=self.backend)[:, 0]
        return self.cell.motor(state), state

    def initial_state(self, batch: int) -> Tensor:
        """The state before the first step, (batch, N)."""
        return self.cell.initial_state(batch)

    def extra_repr(self) -> str:
        """Shown by `print(rnn)`."""
        return f"backend={self.backend!r}, check_finite={self.check_finite}"


def _batch_of_one(
    inputs: Tensor, state: Tensor | None, elapsed: float | Tensor, reset: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None, float | Tensor, Tensor | None, Tensor | None]:
    """Adds the batch dimension to one sequence and what comes with it."""
    if isinstance(elapsed, Tensor) and elapsed.dim() == 1:
        elapsed = elapsed[None]
    if state is not None and state.dim() != 1:
        shape = tuple(state.shape)
        raise ValueError(f"the state of one sequence has shape (N,), got {shape}: with inputs (1, T, I) it is (1, N)")
    return (
        inputs[None],
        None if state is None else state[None],
        elapsed,
        None if reset is None else reset[None],
        None if mask is None else mask[None],
    )


def check_values(
    dtype: torch.dtype, inputs: Tensor, state: Tensor | None, elapsed: float | Tensor, mask: Tensor | None
) -> None:
    """Refuses what is NaN or infinite in `dtype`, and a negative elapsed, naming the first position and how many.

    What the mask hides is not looked at.
    """
    for name, values in (("inputs", inputs), ("state", state), ("elapsed", torch.as_tensor(elapsed))):
        if values is None:
            continue
        bad = ~torch.isfinite(values.to(dtype) if values.is_floating_point() else values)
        if name == "elapsed":
            bad = bad | (values < 0)
        if mask is not None and name != "state" and bad.shape[: mask.dim()] == mask.shape:
            seen = mask.to(bad.device, torch.bool)
            bad = bad & (seen[..., None] if name == "inputs" else seen)
        if bad.any():
            first = torch.nonzero(bad)[0].tolist()
            others = int(bad.sum()) - 1
            where = f"{name}{first if first else ''}"
            more = f" ({others} more like it)" if others else ""
            value = values[tuple(first)].item()
            raise ValueError(f"{where} is {value}{more}: clean the data before the network sees it")
