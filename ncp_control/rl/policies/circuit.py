"""The circuit of a policy: built from a cell's name and a plan, and run over sequences in which episodes may begin."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.neurons import Cell, make_cell, named_cell
from ncp_control.neurons.catalogue import row_of
from ncp_control.rnn import RNN
from ncp_control.wiring import AutoNCP, Plan, Wiring
from ncp_control.wiring.plan_text import parse_plan

WiringLike = Plan | Wiring | int
CellLike = str | type[Cell]
DEFAULT_WIRING = AutoNCP(40, 16)
DEFAULT_CELL = "cfc"
CELL_OF_0_2 = "ltc"  # of a policy that names none, in what version 0.2.0 wrote
RAW_TIME = (
    "the cells need it unnormalised, so pass VecNormalize(env, norm_obs_keys=[...]) the observation's other keys, "
    "without 'elapsed'"
)


def chosen_wiring(wiring: WiringLike | str | None, cell: CellLike) -> WiringLike:
    """Returns the wiring that an argument stands for.

    :param wiring: a wiring; a plan as text, which is read; or None for the default
    :param cell: the cell; the default for one that is always dense is the number of neurons alone
    """
    if wiring is None:
        return DEFAULT_WIRING.units if named_cell(cell).always_dense else DEFAULT_WIRING
    return parse_plan(wiring) if isinstance(wiring, str) else wiring


def is_traced() -> bool:
    """Whether torch is compiling, exporting or tracing this code, so that no branch may depend on a tensor's values."""
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return torch.compiler.is_compiling() or traced


class Circuit(nn.Module):
    """An RNN with the attributes that sb3-contrib expects of a policy's LSTM.

    :param features: the number of features that the circuit reads, F
    :param wiring: a plan (`AutoNCP(40, 16)`), a `Wiring`, or a number of fully connected neurons
    :param cell: the cell's name, such as "ltc", or a class of cells of your own
    :param cell_kwargs: the cell's settings
    :param timed: whether the last feature is the elapsed time; a cell that does not use the elapsed time reads it as
        one more input
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
        settings = {**row_of(kind).control, **(cell_kwargs or {})}
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
        """Runs the circuit over S sequences of T steps.

        :param features: (S, T, F)
        :param state: the state before the first step, (S, N); None is the state before an episode
        :param starts: (S, T) bool, true where an episode begins; None where none does
        :return: the outputs (S, T, O) and the states after every step (S, T, N)
        """
        outputs, _, states = self._scan(features, state, starts)
        return outputs, states

    def forward(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Runs the circuit as `run` does, and returns the outputs and only the last state (S, N)."""
        outputs, last, _ = self._scan(features, state, starts)
        return outputs, last

    def _scan(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Runs the circuit, and returns the outputs, the last state and all states."""
        elapsed: Tensor | float = 1.0
        if self.timed:
            features, elapsed = features[..., :-1], features[..., -1]
            if not is_traced() and (elapsed < 0).any():
                raise ValueError(f"the elapsed time is {float(elapsed.min()):.3g}, less than zero: {RAW_TIME}")
        found: tuple[Tensor, Tensor, Tensor]
        found = self.rnn(features, state, elapsed, reset=starts, states=True)  # all, because a recording listens to it
        return found


def actor_circuit(policy: Any) -> Circuit | None:
    """Returns the circuit that acts.

    :param policy: a policy of Stable-Baselines3
    :return: the actor's circuit, or the one in the policy's `NCPExtractor`; None for a policy without a circuit
    """
    places = (
        getattr(policy, "lstm_actor", None),
        getattr(getattr(getattr(policy, "actor", None), "features_extractor", None), "circuit", None),
        getattr(getattr(policy, "features_extractor", None), "circuit", None),
        getattr(getattr(getattr(policy, "q_net", None), "features_extractor", None), "circuit", None),
    )
    return next((place for place in places if isinstance(place, Circuit)), None)


def unroll(
    circuit: Circuit, features: Tensor, states: tuple[Tensor, Tensor], episode_starts: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Runs whole sequences in one scan, with arguments as sb3-contrib's policies give them.

    :param circuit: reads the features
    :param features: (S T, F), sequence by sequence
    :param states: the state before the first step (1, S, M), whose first N numbers are the circuit's; and the second
        tensor of an LSTM's state, which is returned unchanged
    :param episode_starts: (S T,), nonzero where an episode begins
    :return: the outputs (S T, O), and the states after the last step
    """
    packed, unused = states
    sequences, size = packed.shape[1], circuit.hidden_size
    narrow = size < packed.shape[2]
    state = packed[0, :, :size] if narrow else packed[0]
    starts = episode_starts.bool().view(sequences, -1)
    outputs, last = circuit(features.view(sequences, -1, circuit.input_size), state, starts)
    if narrow:
        last = torch.cat([last, last.new_zeros(sequences, packed.shape[2] - size)], dim=1)
    return outputs.flatten(0, 1), (last[None], unused)
