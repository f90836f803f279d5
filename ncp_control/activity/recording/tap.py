"""Listening to a circuit while it runs, whoever runs it."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.activity.recording.currents import currents_of
from ncp_control.rnn import RNN

Array = NDArray[Any]
ROWS, CHUNKS = 64, 4  # of how many steps, and of how many chunks, derivatives are taken


class Tap:
    """Keeps, of every call of a network, its last step's inputs, elapsed time, and the states before and after it.

    Used in a `with` block, on a network that runs one sequence at a time.
    """

    def __init__(self, rnn: RNN) -> None:
        self.rnn = rnn
        self.sample: list[tuple[Tensor, Tensor, Tensor]] = []
        self.calls: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
        self._hook: Any = None

    def __enter__(self) -> Tap:
        self._hook = self.rnn.register_forward_hook(self._keep, with_kwargs=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hook.remove()

    def _keep(self, module: Any, args: tuple[Any, ...], named: dict[str, Any], found: tuple[Any, ...]) -> None:
        """One call, kept as it is: the agent is waiting."""
        self.calls.append((dict(zip(("inputs", "state", "elapsed", "reset"), args, strict=False)) | named, found))

    def take(self) -> dict[str, Array]:
        """The rows kept since the last time, with time constants and currents: a chunk for a `Writer`."""
        steps = [self._last_step(*call) for call in self.calls]
        self.calls = []
        inputs, before, after = (torch.stack(rows) for rows in list(zip(*steps, strict=True))[:3])
        elapsed = np.array([step[3] for step in steps], np.float32)
        if len(self.sample) < CHUNKS:
            some = torch.linspace(0, len(steps) - 1, min(ROWS, len(steps))).long()
            self.sample.append((inputs[some], before[some], torch.from_numpy(elapsed)[some]))
        return rows_of(self.rnn, inputs, before, after, elapsed)

    def saliency(self) -> Array:
        """What every neuron makes of every input (see `saliency_of`), over some of the steps."""
        return saliency_of(self.rnn, *(torch.cat(parts) for parts in zip(*self.sample, strict=True)))

    def _last_step(self, given: dict[str, Any], found: tuple[Any, ...]) -> tuple[Tensor, Tensor, Tensor, float]:
        """Of a call, the last step's inputs (I,), the states before and after it (M,), and the elapsed time."""
        inputs, reset, state = given["inputs"], given.get("reset"), given.get("state")
        elapsed = given.get("elapsed", 1.0)
        if inputs.dim() != 3 or len(inputs) != 1:
            raise ValueError(f"a recording follows one sequence at a time, got inputs of shape {tuple(inputs.shape)}")
        cell = self.rnn.cell
        if reset is not None and bool(reset[0, -1]):
            before = cell.initial_state(1)[0]
        elif inputs.shape[1] > 1:
            before = found[2][0, -2]
        else:
            before = cell.initial_state(1)[0] if state is None else state[0]
        span = float(elapsed.flatten()[-1]) if isinstance(elapsed, Tensor) else float(elapsed)
        return inputs[0, -1].detach(), before.detach(), found[1][0].detach(), span


@torch.no_grad()
def rows_of(rnn: RNN, inputs: Tensor, before: Tensor, after: Tensor, elapsed: Array) -> dict[str, Array]:
    """The circuit's part of a recording, from inputs (T, I), states before and after (T, M), and elapsed (T,)."""
    cell = rnn.cell
    currents = currents_of(cell, inputs, before, after)
    found = {
        "inputs": inputs,
        "neurons": cell.neurons(after),
        "time_constants": cell.time_constants(inputs, before),
        "sensory_currents": currents.sensory,
        "currents": currents.recurrent,
        "gap_currents": currents.gap,
        "outputs": cell.motor(after),
    }
    if cell.state_size != cell.units:
        found["states"] = after
    rows = {name: values.float().cpu().numpy() for name, values in found.items()}
    return rows if (elapsed == 1).all() and not cell.uses_elapsed else {**rows, "elapsed": elapsed}


def saliency_of(rnn: RNN, inputs: Tensor, before: Tensor, elapsed: Tensor) -> Array:
    """How much a neuron's next state changes with an input, (N, I): the root mean square over steps of the derivative,
    times the input's standard deviation.

    :param inputs: (T, I)
    :param before: states before the step, (T, M)
    :param elapsed: (T,)
    """
    cell = rnn.cell
    with torch.enable_grad():
        read = inputs.detach().clone().requires_grad_()
        after = cell.neurons(cell.step(read, before.detach(), elapsed.to(read)))
        rows = [
            torch.autograd.grad(after[:, k].sum(), read, retain_graph=True, allow_unused=True)[0]
            for k in range(cell.units)
        ]
    spread = inputs.std(0, correction=0)
    found = [torch.zeros_like(spread) if row is None else row.square().mean(0).sqrt() * spread for row in rows]
    return torch.stack(found).detach().float().cpu().numpy()


@torch.no_grad()
def bounds_of(rnn: RNN) -> dict[str, Array]:
    """The bounds of states and time constants, (2, N) each."""
    cell = rnn.cell
    states = [cell.neurons(bound) for bound in cell.state_bounds()]
    return {
        "state_bounds": torch.stack(states).float().cpu().numpy(),
        "time_constant_bounds": torch.stack(cell.time_constant_bounds()).float().cpu().numpy(),
    }
