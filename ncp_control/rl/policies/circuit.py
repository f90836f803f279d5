"""The circuits of a policy: built from names and plans, run over sequences with episode starts inside."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.cells import LTC, Cell, make_cell, named_cell
from ncp_control.rnn import RNN
from ncp_control.wiring import AutoNCP, Plan, Wiring

WiringLike = Plan | Wiring | int
CellLike = str | type[Cell]
# What is better for control than a cell's own default (thresholds where normalised observations lie).
DEFAULTS: dict[type[Cell], dict[str, Any]] = {LTC: {"init": "centred"}}
DEFAULT_WIRING = AutoNCP(40, 16)


RAW_TIME = (
    "cells read it as it is, so leave it out of the normalisation, VecNormalize(env, norm_obs_keys=[...]) with all "
    "keys but 'elapsed'"
)


def following() -> bool:
    """Whether torch follows the code to compile, export or trace it: then no test may depend on values."""
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return torch.compiler.is_compiling() or traced


class Circuit(nn.Module):
    """An RNN with the attributes that sb3-contrib asks of its recurrent module.

    :param features: columns of what it reads, F
    :param wiring: a plan (`AutoNCP(40, 16)`), a `Wiring`, or a number of fully connected neurons
    :param cell: the cell's name, such as "ltc", or a class of one's own
    :param cell_kwargs: its settings
    :param timed: the last column is the elapsed time; a cell whose steps do not depend on it reads it as an input
    """

    num_layers = 1

    def __init__(
        self,
        features: int,
        wiring: WiringLike,
        cell: CellLike,
        cell_kwargs: dict[str, Any] | None = None,
        timed: bool = False,
    ) -> None:
        super().__init__()
        kind = named_cell(cell)
        settings = {**DEFAULTS.get(kind, {}), **(cell_kwargs or {})}
        self.timed = timed and kind.uses_elapsed
        self.rnn = RNN(make_cell(kind, features - self.timed, wiring, **settings))
        self.input_size = features
        self.hidden_size = self.cell.state_size
        self.output_size = self.cell.outputs

    @property
    def cell(self) -> Cell:
        """The cell."""
        return self.rnn.cell

    def run(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs (S, T, O) and every state (S, T, N) from features (S, T, F), the state before them (S, N), and
        starts (S, T) bool.
        """
        elapsed: Tensor | float = 1.0
        if self.timed:
            features, elapsed = features[..., :-1], features[..., -1]
            if not following() and (elapsed < 0).any():
                raise ValueError(f"the elapsed time is {float(elapsed.min()):.3g}, less than zero: {RAW_TIME}")
        outputs, _, states = self.rnn(features, state, elapsed, reset=starts, states=True)
        return outputs, states

    def forward(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """As `run`, but the last state (S, N) only."""
        outputs, states = self.run(features, state, starts)
        return outputs, states[:, -1]


def unroll(
    circuit: Circuit, features: Tensor, states: tuple[Tensor, Tensor], episode_starts: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Runs whole sequences in one scan, in the form that sb3-contrib's policies use.

    :param features: (S T, F), sequence by sequence
    :param states: the state (1, S, M), of which the first N of M numbers are the circuit's; and a second tensor of an
        LSTM's, which nothing uses here
    :param episode_starts: (S T,), not zero where an episode begins
    :return: outputs (S T, O), and the states after the last step
    """
    packed, unused = states
    sequences, size = packed.shape[1], circuit.hidden_size
    narrow = size < packed.shape[2]
    state = packed[0, :, :size] if narrow else packed[0]
    starts = (episode_starts != 0).reshape(sequences, -1)
    outputs, last = circuit(features.reshape(sequences, -1, circuit.input_size), state, starts)
    if narrow:
        last = torch.cat([last, last.new_zeros(sequences, packed.shape[2] - size)], dim=1)
    return outputs.reshape(-1, circuit.output_size), (last[None], unused)
