"""Listening to a circuit while it runs, whatever runs it."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.neurons import Cell, Currents
from ncp_control.rnn import RNN

Array = NDArray[Any]
# The saliency is measured over at most ROWS steps of each of the first CHUNKS chunks.
ROWS, CHUNKS = 64, 4


class Tap:
    """Listens to a network: keeps the last step of every call, with its inputs, elapsed time, and states.

    Use it in a `with` block, on a network that runs one sequence at a time.

    :param rnn: the network
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

    def _keep(self, module: Any, args: tuple[Any, ...], named: dict[str, Any], results: tuple[Any, ...]) -> None:
        """Keeps a call as it is, because the agent is waiting; `take` evaluates it later."""
        self.calls.append((dict(zip(("inputs", "state", "elapsed", "reset"), args, strict=False)) | named, results))

    def take(self) -> dict[str, Array]:
        """Returns a chunk for a `Writer`: a row for each call since the last `take`."""
        steps = [self._last_step(*call) for call in self.calls]
        self.calls = []
        inputs, before, after = (torch.stack(rows) for rows in list(zip(*steps, strict=True))[:3])
        elapsed = np.array([step[3] for step in steps], np.float32)
        if len(self.sample) < CHUNKS:
            some = torch.linspace(0, len(steps) - 1, min(ROWS, len(steps))).long()
            self.sample.append((inputs[some], before[some], torch.from_numpy(elapsed)[some]))
        return rows_of(self.rnn, inputs, before, after, elapsed)

    def saliency(self) -> Array:
        """Returns how much every neuron responds to every input (see `saliency_of`), over some of the steps."""
        return saliency_of(self.rnn, *(torch.cat(parts) for parts in zip(*self.sample, strict=True)))

    def _last_step(self, arguments: dict[str, Any], results: tuple[Any, ...]) -> tuple[Tensor, Tensor, Tensor, float]:
        """Returns the inputs (I,) of a call's last step, the states (M,) before and after it, and the elapsed time."""
        inputs, reset, state = arguments["inputs"], arguments.get("reset"), arguments.get("state")
        elapsed = arguments.get("elapsed", 1.0)
        if inputs.dim() != 3 or len(inputs) != 1:
            raise ValueError(f"a recording follows one sequence at a time, got inputs of shape {tuple(inputs.shape)}")
        cell = self.rnn.cell
        if reset is not None and bool(reset[0, -1]):
            before = cell.initial_state(1)[0]
        elif inputs.shape[1] > 1:  # a window, as an agent over History reads it in every step
            before = results[2][0, -2]
        else:
            before = cell.initial_state(1)[0] if state is None else state[0]
        span = float(elapsed.flatten()[-1]) if isinstance(elapsed, Tensor) else float(elapsed)
        return inputs[0, -1].detach(), before.detach(), results[1][0].detach(), span


@torch.no_grad()
def rows_of(rnn: RNN, inputs: Tensor, before: Tensor, after: Tensor, elapsed: Array) -> dict[str, Array]:
    """Returns the arrays of a recording that come from the circuit.

    :param rnn: the network
    :param inputs: (T, I)
    :param before: the states before the steps, (T, M)
    :param after: the states after the steps, (T, M)
    :param elapsed: (T,)
    """
    cell = rnn.cell
    currents = cell.currents(inputs, before, after)
    if currents is None:
        currents = unknown_currents(cell, inputs)
    tensors = {
        "inputs": inputs,
        "neurons": cell.neurons(after),
        "time_constants": cell.time_constants(inputs, before),
        "sensory_currents": currents.sensory,
        "currents": currents.recurrent,
        "gap_currents": currents.gap,
        "outputs": cell.motor(after),
    }
    if cell.state_size != cell.units:
        tensors["states"] = after
    rows = {name: values.float().cpu().numpy() for name, values in tensors.items()}
    return rows if (elapsed == 1).all() and not cell.uses_elapsed else {**rows, "elapsed": elapsed}


def unknown_currents(cell: Cell, inputs: Tensor) -> Currents:
    """Returns NaN for every synapse in every step: in a recording this means "not known"."""
    wiring = cell.wiring
    counts = (len(wiring.sensory), len(wiring.synapses), len(wiring.gap_junctions))
    return Currents(*(inputs.new_full((len(inputs), count), torch.nan) for count in counts))


def saliency_of(rnn: RNN, inputs: Tensor, before: Tensor, elapsed: Tensor) -> Array:
    """Returns how much each neuron's next state changes with each input.

    This is the root mean square, over the steps, of the derivative, times the input's standard deviation.

    :param rnn: the network
    :param inputs: (T, I)
    :param before: the states before the steps, (T, M)
    :param elapsed: (T,)
    :return: (N, I)
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
    """Returns the bounds of the states and of the time constants, (2, N) each."""
    cell = rnn.cell
    states = [cell.neurons(bound) for bound in cell.state_bounds()]
    return {
        "state_bounds": torch.stack(states).float().cpu().numpy(),
        "time_constant_bounds": torch.stack(cell.time_constant_bounds()).float().cpu().numpy(),
    }
