"""Ten trained networks of other people's kinds, each converted to a liquid circuit with the same settings.

Every source is trained first, for a few hundred batches on a little task, and then converted on sequences like those of
its task. The error is that on new sequences, in per cent of the variance of the source's outputs. Run::

    python scripts/foreign_networks.py
    python scripts/foreign_networks.py --only gru-score cfc-controller lstm-controller --seeds 0 1 2
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from ncps.torch import LTC as NcpsLTC
from ncps.torch import CfC as NcpsCfC
from ncps.wirings import AutoNCP as NcpsAutoNCP
from numpy.typing import NDArray
from torch import Tensor, nn

from ncp_control.integrations.foreign_networks import SEQUENCES, follow_network
from ncp_control.rl.policies.circuit import actor_circuit

Array = NDArray[np.float64]
STEPS = 64  # of every sequence


class ReadOut(nn.Module):
    """A recurrent network with a linear read-out behind it.

    :param network: maps (B, T, I) to (outputs, state)
    :param width: the width of its outputs
    :param outputs: the number of outputs of the whole
    """

    def __init__(self, network: nn.Module, width: int, outputs: int) -> None:
        super().__init__()
        self.network, self.read_out = network, nn.Linear(width, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Maps (B, T, I) to (B, T, O)."""
        outputs: Tensor = self.read_out(self.network(inputs)[0])
        return outputs


@dataclass(frozen=True)
class Task:
    """What a source learns.

    :param inputs: draws inputs (S, T, I) for a number of sequences and a generator
    :param targets: returns what is to be told of them, (S, T, O)
    """

    inputs: Callable[[int, np.random.Generator], Array]
    targets: Callable[[Array], Array]


def noise(features: int) -> Callable[[int, np.random.Generator], Array]:
    """Returns a function that draws white noise, smoothed a little and by another amount in every sequence."""

    def draw(count: int, random: np.random.Generator) -> Array:
        keep = random.uniform(0, 0.9, (count, 1))
        drawn = random.normal(size=(count, STEPS, features))
        for k in range(1, STEPS):
            drawn[:, k] = keep * drawn[:, k - 1] + np.sqrt(1 - keep**2) * drawn[:, k]
        return drawn

    return draw


def sines(count: int, random: np.random.Generator) -> Array:
    """Draws sums of two sines with a little noise, (S, T, 1)."""
    rates, phases = random.uniform(0.1, 0.8, (2, count, 1)), random.uniform(0, 2 * np.pi, (2, count, 1))
    waves = np.sin(rates * np.arange(STEPS) + phases).sum(axis=0)
    return np.asarray(waves[..., None] + 0.05 * random.normal(size=(count, STEPS, 1)))


def oscillators(count: int, random: np.random.Generator) -> Array:
    """Draws position and velocity of pushed, damped oscillators, measured with noise, (S, T, 2)."""
    state, rows = random.normal(size=(2, count)), []
    stiffness = random.uniform(0.05, 0.4, count)
    for _ in range(STEPS):
        velocity = 0.95 * state[1] - stiffness * state[0] + 0.3 * random.normal(size=count)
        state = np.stack([state[0] + velocity, velocity])
        rows.append(state.T + 0.1 * random.normal(size=(count, 2)))
    return np.stack(rows, axis=1)


def ahead(inputs: Array) -> Array:
    """Returns the inputs one step ahead; after the last step, those of the last step."""
    return np.concatenate([inputs[:, 1:], inputs[:, -1:]], axis=1)


def delayed_sum(inputs: Array) -> Array:
    """Returns the sum of what the two inputs were two and five steps ago."""
    early = np.pad(inputs, ((0, 0), (5, 0), (0, 0)))
    return early[:, 3:-2, :1] + early[:, :-5, 1:]


def scores(inputs: Array) -> Array:
    """Returns two scores of a class: running evidence of the inputs' sum, and of the product of two of them."""
    evidence = np.stack([inputs.sum(axis=-1), inputs[..., 0] * inputs[..., 1]], axis=-1)
    return np.tanh(filtered(evidence, 0.9) * 2)


def filtered(values: Array, keep: float) -> Array:
    """Returns the exponential averages of (S, T, n)."""
    averages = np.zeros_like(values)
    for k in range(values.shape[1]):
        averages[:, k] = (keep * averages[:, k - 1] if k else 0) + (1 - keep) * values[:, k]
    return averages


def controller(outputs: int) -> Callable[[Array], Array]:
    """Returns a controller with a proportional, an integral and a derivative part, whose actions saturate."""

    def act(errors: Array) -> Array:
        gains = np.random.default_rng(7).normal(size=(3, errors.shape[-1], outputs)) / np.sqrt(errors.shape[-1])
        change = np.diff(errors, axis=1, prepend=0)
        return np.tanh(0.8 * errors @ gains[0] + 2 * filtered(errors, 0.9) @ gains[1] + 0.5 * change @ gains[2])

    return act


@dataclass(frozen=True)
class Foreign:
    """One source.

    :param kind: its kind, in words
    :param task: what it learns
    :param told: the task in words
    :param make: makes the untrained network
    """

    kind: str
    told: str
    task: Task
    make: Callable[[], nn.Module]


def lstm(inputs: int, units: int, outputs: int) -> nn.Module:
    """Returns an LSTM with a read-out."""
    return ReadOut(nn.LSTM(inputs, units, batch_first=True), units, outputs)


def gru(inputs: int, units: int, outputs: int) -> nn.Module:
    """Returns a GRU with a read-out."""
    return ReadOut(nn.GRU(inputs, units, batch_first=True), units, outputs)


def imitator_ltc() -> nn.Module:
    """Returns an LTC of ncps, four of whose neurons are read out."""
    return ReadOut(NcpsLTC(4, NcpsAutoNCP(24, 4)), 4, 2)


def imitator_cfc() -> nn.Module:
    """Returns a dense CfC of ncps with a read-out."""
    return ReadOut(NcpsCfC(6, 32), 32, 6)


DELAY, SINE, SCORE = Task(noise(2), delayed_sum), Task(sines, ahead), Task(noise(3), scores)
OSCILLATOR, TWO, SIX = Task(oscillators, ahead), Task(noise(4), controller(2)), Task(noise(6), controller(6))
SOURCES = {
    "lstm-delay": Foreign("nn.LSTM, 32", "sum of delayed inputs", DELAY, lambda: lstm(2, 32, 1)),
    "gru-delay": Foreign("nn.GRU, 32", "sum of delayed inputs", DELAY, lambda: gru(2, 32, 1)),
    "lstm-sine": Foreign("nn.LSTM, 32", "the next value of two sines", SINE, lambda: lstm(1, 32, 1)),
    "gru-score": Foreign("nn.GRU, 32", "two scores of a sequence", SCORE, lambda: gru(3, 32, 2)),
    "lstm-oscillator": Foreign("nn.LSTM, 64", "a noisy oscillator's next step", OSCILLATOR, lambda: lstm(2, 64, 2)),
    "gru-oscillator": Foreign("nn.GRU, 64", "a noisy oscillator's next step", OSCILLATOR, lambda: gru(2, 64, 2)),
    "ltc-controller": Foreign("ncps LTC, 24", "a controller of 2 actions", TWO, imitator_ltc),
    "cfc-controller": Foreign("ncps CfC, 24", "a controller of 2 actions", TWO, lambda: NcpsCfC(4, NcpsAutoNCP(24, 2))),
    "dense-cfc-controller": Foreign("ncps CfC, dense, 32", "a controller of 6 actions", SIX, imitator_cfc),
    "lstm-controller": Foreign("nn.LSTM, 32", "a controller of 6 actions", SIX, lambda: lstm(6, 32, 6)),
}


def trained(foreign: Foreign, batches: int = 400) -> nn.Module:
    """Returns a source that has learnt its task, from a seed of its own."""
    torch.manual_seed(0)
    np.random.seed(0)
    random = np.random.default_rng(0)
    network = foreign.make()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, batches)
    for _ in range(batches):
        inputs = foreign.task.inputs(32, random)
        found = network(torch.as_tensor(inputs, dtype=torch.float32))
        outputs = found[0] if isinstance(found, tuple) else found
        loss = (outputs - torch.as_tensor(foreign.task.targets(inputs), dtype=torch.float32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return network.eval()


@dataclass
class Arguments:
    """Train ten recurrent networks, and convert each to a liquid circuit."""

    only: tuple[str, ...] = ()
    """The names of some of them."""

    seeds: tuple[int, ...] = (0,)
    """The seeds of the conversion; a row for each."""

    drawn: bool = False
    """Convert on the inputs that the command draws by itself, instead of those of the task."""

    synapses: int = 300
    """The most synapses of a circuit."""


def main(arguments: Arguments) -> None:
    """Prints a row for each conversion."""
    torch.set_num_threads(1)
    columns = "source", "task", "inputs", "outputs", "parameters", "seed", "synapses", "own parameters", "error %", "s"
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for name in arguments.only or SOURCES:
        foreign = SOURCES[name]
        network = trained(foreign)
        data = None if arguments.drawn else foreign.task.inputs(SEQUENCES, np.random.default_rng(1))
        for seed in arguments.seeds:
            start = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "circuit.safetensors"
                followed = follow_network(network, out, data, synapses=arguments.synapses, seed=seed, progress=False)
            seconds = time.process_time() - start
            circuit = actor_circuit(followed.agent.policy)
            assert circuit is not None
            wiring = circuit.cell.wiring
            own = sum(value.numel() for value in circuit.parameters()) + len(followed.errors) * (wiring.units + 1)
            row = (
                foreign.kind, foreign.told, followed.inputs, len(followed.errors), f"{followed.parameters:,}", seed,
                wiring.existing_synapses, own, f"{100 * followed.error:.2f}", f"{seconds:.0f}",
            )  # fmt: skip
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
