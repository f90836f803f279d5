"""Times an epoch of fitting 32 LTC neurons to half-cheetah traces, here and with ncps, in turn on one thread.

python scripts/benchmark_fit.py DATA [--repeats 3]

Both read the same batches. Before the timing, their outputs with the same weights are compared, and each does one epoch
that is not timed, in which a GPU's kernels are compiled. DATA is what `ncp-control fit` takes; by default it is random
traces of the same size.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from needed import needed
from torch import Tensor, nn

from ncp_control import from_ncps
from ncp_control.data import Rollout, Rollouts, Windows
from ncp_control.dynamics import DynamicsModel, FitSettings
from ncp_control.dynamics.fitting import fit_loss


@dataclass
class Arguments:
    """Time an epoch of fitting 32 LTC neurons, here and with ncps, in turn."""

    data: Annotated[str | None, tyro.conf.Positional] = None
    """The rollouts; by default ten random traces of 1000 steps and 17 observations."""

    repeats: int = 3
    """Number of timed epochs of each; their median counts."""

    device: str = "cpu"
    """cpu or cuda."""

    batch: int = 16
    """Number of windows in a batch."""

    seed: int = 0
    """The random traces and the weights follow from it."""


class Peer(nn.Module):
    """The LTC of ncps with a linear readout, on observations scaled as the model scales them."""

    def __init__(self, model: DynamicsModel) -> None:
        super().__init__()
        with needed():
            from ncps.torch import LTC

        self.mean, self.std = model.mean, model.std
        self.cell = LTC(model.features, model.rnn.wiring.units, batch_first=True, epsilon=0.0)
        self.readout = nn.Linear(model.rnn.wiring.units, model.features)

    def forward(self, observations: Tensor) -> Tensor:
        """Returns predictions (B, T, n)."""
        outputs, _ = self.cell((observations - self.mean) / self.std)
        found: Tensor = self.mean + self.std * self.readout(outputs)
        return found


def main(arguments: Arguments) -> None:
    """Times both and prints the result."""
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    train = traces(arguments)
    model = DynamicsModel.of(train, "ltc", 32)
    peer = Peer(model)
    model.rnn.load_state_dict(from_ncps(peer.cell).state_dict())
    model.readout.load_state_dict(peer.readout.state_dict())
    model.to(arguments.device)
    peer.to(arguments.device)
    peer.mean, peer.std = model.mean, model.std
    windows = Windows(train, 32, 10, device=arguments.device)
    seen = windows[list(range(8))].observations
    torch.testing.assert_close(model(seen)[0], peer(seen), rtol=1e-3, atol=1e-3)
    settings = FitSettings()
    ours, theirs = [], []
    for _ in range(1 + arguments.repeats):
        ours.append(epoch(windows, arguments, model, lambda b: fit_loss(model, b, None, 0.0, 1, None)))
        theirs.append(epoch(windows, arguments, peer, lambda b: (peer(b.observations) - b.targets).square().mean()))
    one, other = statistics.median(ours[1:]), statistics.median(theirs[1:])
    print(f"{len(windows)} windows of {settings.length} steps, batches of {arguments.batch}, {arguments.device}")
    print(f"here {one:.2f} s an epoch, ncps {other:.2f} s: {other / one:.1f} times faster")


def traces(arguments: Arguments) -> Rollouts:
    """Returns the training part of the rollouts."""
    if arguments.data is not None:
        return Rollouts.load(arguments.data).split().train
    random = np.random.default_rng(arguments.seed)
    return Rollouts(tuple(Rollout(random.normal(size=(1000, 17))) for _ in range(10)))


def epoch(windows: Windows, arguments: Arguments, model: nn.Module, loss_of: Any) -> float:
    """Returns the seconds that one pass over the windows takes with Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    parameters = list(model.parameters())
    begin = time.perf_counter()
    for batch in windows.loader(arguments.batch, shuffle=True, seed=1):
        optimizer.zero_grad()
        loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()
    if arguments.device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(tyro.cli(Arguments))
