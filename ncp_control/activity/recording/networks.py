"""Recording what a network does over one sequence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.tap import ROWS, bounds_of, rows_of, saliency_of
from ncp_control.activity.recording.writer import Writer
from ncp_control.neurons import cell_config
from ncp_control.rnn import RNN


def record_network(
    rnn: RNN,
    inputs: Tensor,
    out: str | Path,
    *,
    elapsed: Tensor | float = 1.0,
    reset: Tensor | None = None,
    names: Iterable[str] = (),
) -> Activity:
    """Writes what a network does over one sequence.

    :param rnn: the network
    :param inputs: (T, I)
    :param out: the `.npz` file
    :param elapsed: a number, or (T,)
    :param reset: (T,) bool
    :param names: a name for each input; the wiring's names by default
    """
    if inputs.dim() != 2:
        raise ValueError(f"a recording follows one sequence, (time, inputs), not inputs of shape {tuple(inputs.shape)}")
    with torch.no_grad():
        _, _, states = rnn(inputs, elapsed=elapsed, reset=reset, states=True)
    first = rnn.initial_state(1)
    before = torch.cat([first, states[:-1]])
    starts = torch.zeros(len(inputs), dtype=torch.bool)
    starts[0] = True
    if reset is not None:
        starts |= reset.cpu()
        before = torch.where(starts[:, None].to(before.device), first, before)
    elapsed_rows = torch.as_tensor(elapsed, dtype=torch.float32).cpu().expand(len(inputs)).numpy()
    about = {
        "kind": "network", "cell": cell_config(rnn.cell), "env": None, "controller": "", "seeds": [], "dt": None,
        "observation_names": list(names) or list(rnn.wiring.input_names), "action_names": [], "silenced": [],
        "note": {},
    }  # fmt: skip
    with Writer(out, about, rnn.wiring) as writer:
        some = torch.linspace(0, len(inputs) - 1, min(ROWS, len(inputs))).long()
        saliency = saliency_of(rnn, inputs[some], before[some], torch.tensor(elapsed_rows)[some])
        writer.fix(**bounds_of(rnn), saliency=saliency)
        circuit = rows_of(rnn, inputs, before, states, elapsed_rows)
        writer.append(observations=inputs.detach().cpu().numpy(), episode_starts=starts.numpy(), **circuit)
    return Activity.load(out)
