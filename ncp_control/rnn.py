"""A module that runs any cell over sequences."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor, nn

from ncp_control.neurons import Cell
from ncp_control.ops import check_backend
from ncp_control.ops.dispatch import scan_with_outputs
from ncp_control.ops.pieces import check_pieces
from ncp_control.ops.problem import check_tensors
from ncp_control.wiring import Wiring


class RNN(nn.Module):
    """Runs a cell over sequences, batch first, as `torch.nn.LSTM` does.

    Example::

        rnn = RNN(LTC(8, AutoNCP(40, 16)))
        outputs, state = rnn(torch.randn(64, 128, 8))  # (64, 128, 16), (64, 40)
        outputs, state, states = rnn(inputs, state, elapsed=dt, reset=starts, states=True)

    :param cell: a cell of this package or of your own
    :param backend: "auto" (default), or the name of a backend of `ncp_control.ops`: then no other one is ever used
    :param check_finite: whether to refuse NaN and infinity in inputs, state and elapsed, and a negative elapsed, with a
        message that names the position. This costs a pass over the inputs, and on a GPU a synchronisation
    :param parallel: run the pieces of long sequences side by side (a number of pieces, or true for as many as pay); the
        result is the same up to rounding, and comes sooner for few sequences and a cell that forgets
    """

    def __init__(
        self, cell: Cell, backend: str = "auto", check_finite: bool = False, parallel: bool | int = False
    ) -> None:
        super().__init__()
        if not isinstance(cell, Cell):
            raise TypeError(f"RNN needs a cell such as LTC(8, 32), got {type(cell).__name__}")
        check_backend(backend)
        check_pieces(parallel)
        self.cell = cell
        self.backend = backend
        self.check_finite = check_finite
        self.parallel = parallel

    @property
    def wiring(self) -> Wiring:
        """The wiring of the cell."""
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
        """Runs the cell over whole sequences.

        :param inputs: (B, T, I), or (T, I) for one sequence; any float type, computed in the parameters' type, which is
            float64 after `rnn.double()`
        :param state: the state before the first step, (B, N), or (N,) for one sequence; None for the initial state
        :param elapsed: time since the previous step, not negative: a number, (B,) or (B, T), or (T,) for one sequence.
            LSTM and GRU count steps and ignore it
        :param reset: (B, T) bool, or (T,) for one sequence; true puts a row in its initial state before that step
        :param mask: (B, T) bool, or (T,) for one sequence; false marks padding, where state and outputs do not change,
            so that the returned state of a row is the one after its last true step (a reset in padding still resets)
        :param states: whether to return every neuron's state after every step, too
        :return: outputs (B, T, O) and the last state (B, N), and with `states` all states (B, T, N)
        """
        cell = self.cell
        single = isinstance(inputs, Tensor) and inputs.dim() == 2
        if single or self.check_finite:  # the scan checks them, too, but what comes before it reads them
            check_tensors(inputs, state, reset, mask)
        if self.check_finite:
            check_values(cell.dtype, inputs, state, elapsed, mask)
        if single:
            inputs, state, elapsed, reset, mask = _batch_of_one(inputs, state, elapsed, reset, mask)
        outputs, trajectory = scan_with_outputs(cell, inputs, state, elapsed, reset, mask, self.backend, self.parallel)
        if trajectory.shape[1]:  # a sequence without steps leaves the state as it was
            last = trajectory.select(1, -1)
        elif state is None:
            last = cell.initial_state(inputs.shape[0], device=inputs.device)
        else:
            last = state.to(trajectory.dtype)
        if single:
            outputs, last, trajectory = outputs[0], last[0], trajectory[0]
        return (outputs, last, trajectory) if states else (outputs, last)

    def step(self, inputs: Tensor, state: Tensor, elapsed: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """Runs the cell for one step.

        :param inputs: (B, I)
        :param state: (B, N)
        :param elapsed: time since the previous step, a number or (B,)
        :return: outputs (B, O) and the next state (B, N)
        """
        outputs, states = scan_with_outputs(self.cell, inputs[:, None], state, elapsed, backend=self.backend)
        return outputs[:, 0], states[:, 0]

    def initial_state(self, batch: int) -> Tensor:
        """Returns the state before the first step, (batch, N)."""
        return self.cell.initial_state(batch)

    def extra_repr(self) -> str:
        """Shown by `print(rnn)`."""
        parallel = f", parallel={self.parallel}" if self.parallel else ""
        return f"backend={self.backend!r}, check_finite={self.check_finite}{parallel}"


def _batch_of_one(
    inputs: Tensor, state: Tensor | None, elapsed: float | Tensor, reset: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None, float | Tensor, Tensor | None, Tensor | None]:
    """Adds the batch dimension to one sequence and to the arguments that come with it."""
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
    """Refuses NaN and infinity in `dtype`, and a negative elapsed; the message names the first position and counts all.

    Padding, where the mask is false, is not checked.
    """
    for name, values in (("inputs", inputs), ("state", state), ("elapsed", torch.as_tensor(elapsed))):
        if values is None:
            continue
        # in the type of the computation, in which a large number may be infinite
        bad = ~torch.isfinite(values.to(dtype) if values.is_floating_point() else values)
        if name == "elapsed":
            bad = bad | (values < 0)
        # an elapsed time of one number, or one a row, has no padding
        if mask is not None and name != "state" and bad.shape[: mask.dim()] == mask.shape:
            seen = mask.to(bad.device, torch.bool)
            bad = bad & (seen[..., None] if name == "inputs" else seen)
        if bad.any():
            first = torch.nonzero(bad)[0].tolist()
            further = int(bad.sum()) - 1
            where = f"{name}{first if first else ''}"
            more = f" ({further} more like it)" if further else ""
            value = values[tuple(first)].item()
            raise ValueError(f"{where} is {value}{more}: clean the data before the network sees it")
