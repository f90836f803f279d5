"""The networks that forecast a noisy series: circuits and an LSTM with about the same number of parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import ncp_control as nc


class Forecaster(nn.Module):
    """A recurrent network with a linear readout, which makes predictions (B, T) from observations (B, T)."""

    def __init__(self, cell: nc.Cell) -> None:
        super().__init__()
        self.rnn = nc.RNN(cell)
        self.readout = nn.Linear(cell.outputs, 1)

    def forward(self, observed: Tensor) -> Tensor:
        outputs, _ = self.rnn(observed[..., None])
        predicted: Tensor = self.readout(outputs)[..., 0]
        return predicted

    def count(self) -> int:
        """Returns the number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def build(model: str, parameters: int, seed: int) -> Forecaster:
    """Makes a network with about `parameters` parameters, drawn from `seed`."""

    def nearest(make: Callable[[int], nc.Cell], parameters: int) -> int:
        return min(range(2, 60), key=lambda size: abs(Forecaster(make(size)).count() - parameters))

    def liquid(plan: nc.NCP | nc.FullyConnected) -> nc.LTC:
        # "centred" thresholds start where standardised inputs lie; the readout scales the motor neurons without a map
        return nc.LTC(1, plan, unfolds=3, init="centred", output_map="none")

    def dense(units: int) -> nc.LTC:
        return liquid(nc.FullyConnected(units, seed=seed))

    def policy(command: int, more: int = 0) -> nc.LTC:
        recurrent = min(command**2 // 2 + more, command**2)
        fans = {"sensory_fanout": command, "inter_fanout": command // 2, "motor_fanin": command // 2}
        return liquid(nc.NCP(command, command, 4, recurrent_command=recurrent, seed=seed, **fans))

    cell: Callable[[], nc.Cell]
    width = nearest(lambda width: nc.LSTM(1, width), parameters)
    equal = Forecaster(nc.LSTM(1, width)).count()
    if model == "LTC NCP":
        command = nearest(policy, equal)
        more = (equal - Forecaster(policy(command)).count()) // 4  # a synapse has four parameters
        cell = partial(policy, command, more)
    elif model == "LTC dense":
        cell = partial(dense, nearest(dense, equal))
    else:
        cell = partial(nc.LSTM, 1, width)
    torch.manual_seed(seed)
    return Forecaster(cell())
