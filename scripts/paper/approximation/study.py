"""How closely a circuit can follow another system, and with how many neurons: Theorem 3 of the LTC paper.

The theorem says that for any epsilon there is an LTC network with enough hidden units which, started from x(0), has
outputs u with `max_t |x(t) - u(t)| < epsilon` on [0, T]. This maximum is measured here on rollouts that no circuit was
fitted to, in coordinates of mean 0 and standard deviation 1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch

from ncp_control.base.progress import tracked
from ncp_control.neurons import LTC, NeuralLTC
from scripts.paper.approximation.attractors import LORENZ, VAN_DER_POL, Array, Data, make_data, time_scales
from scripts.paper.approximation.circuits import Follower, OneGateCircuit, ProofCircuit, construct
from scripts.paper.approximation.rollout_fit import fit

CONSTRUCTED, TRAINED, ONE_GATE = "constructed", "trained", "Eq. 1, trained"
SYSTEMS = (VAN_DER_POL, LORENZ)
# A circuit's unit of time in the system's time, within the range of the system's own time scales.
PACE = {VAN_DER_POL.name: 1.0, LORENZ.name: 0.1}
ONE_GATE_PACE = {VAN_DER_POL.name: 0.3, LORENZ.name: 0.1}
RIDGE = {CONSTRUCTED: 1e-9, TRAINED: 1e-3}
LOST = 0.5  # a circuit follows a rollout until it is this far away
CLOCKS = 3  # clocks of a test rollout
EVERY = 10  # samples between the starts of single steps
ROWS = 256


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    :param neurons: numbers of hidden units, by kind of circuit
    :param train: rollouts to construct and to train circuits from
    :param held_out: rollouts to validate with, and as many to test with
    :param batch: windows in a stage of the training
    :param stages: stages of the training, each a part of the horizon and a number of iterations
    :param unfolds: solver steps between two samples while a circuit is trained
    """

    neurons: Mapping[str, tuple[int, ...]]
    train: int = 256
    held_out: int = 32
    batch: int = 64
    stages: tuple[tuple[float, int], ...] = ((0.125, 60), (0.35, 60), (1.0, 160))
    unfolds: int = 6


DEFAULT = Sizes({CONSTRUCTED: (4, 8, 16, 32, 64), TRAINED: (2, 4, 8, 16, 32), ONE_GATE: (2, 4, 8, 16)})
FULL = Sizes(
    {CONSTRUCTED: (4, 8, 16, 32, 64, 128, 256), TRAINED: (2, 4, 8, 16, 32), ONE_GATE: (2, 4, 8, 16, 32)},
    train=512,
    held_out=64,
    batch=128,
    stages=((0.125, 100), (0.35, 100), (1.0, 500)),
    unfolds=12,
)


class Result(NamedTuple):
    """How a circuit follows rollouts from starts that it has not seen.

    :param system: the name of the system
    :param kind: the kind of circuit
    :param neurons: hidden units
    :param seed: the number of the seed
    :param peak: `max_t |x - u|` up to the horizon, the median over starts
    :param worst: `max_t |x - u|` up to the horizon, the largest over starts
    :param rms: the root mean square of x - u up to the horizon, over all coordinates
    :param one_step: the root mean square of x - u after one sample, started from x(t)
    :param followed: the time until |x - u| exceeds LOST, in clocks, the median over starts
    :param potential: the largest |E| or |A|, which bounds the states
    """

    system: str
    kind: str
    neurons: int
    seed: int
    peak: float
    worst: float
    rms: float
    one_step: float
    followed: float
    potential: float


class Pace(NamedTuple):
    """Time constants along an orbit, in the system's time.

    :param times: the times of the samples, (T,)
    :param system: the system's `1 / |Re lambda|`, in rising order, (T, n)
    :param circuit: the time constants of every neuron, (T, units)
    """

    times: Array
    system: Array
    circuit: Array


class Study(NamedTuple):
    """The results of the study.

    :param results: one for each circuit
    :param data: the data by the system's name
    :param circuits: the circuits of the first seed, by system, kind and neurons
    """

    results: list[Result]
    data: dict[str, Data]
    circuits: dict[tuple[str, str, int], Follower]


def study(sizes: Sizes, seeds: int, seed: int, progress: bool = True) -> Study:
    """Makes and measures every circuit.

    :param sizes: how much is computed
    :param seeds: how many circuits of every size, each with its own random numbers
    :param seed: the seed of rollouts and circuits
    :param progress: whether to show the progress
    """
    if seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {seeds}")
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    data = {
        system.name: make_data(system, sizes.train, sizes.held_out, CLOCKS, np.random.default_rng([seed, k]))
        for k, system in enumerate(SYSTEMS)
    }
    jobs = list(planned(sizes, seeds))
    found = Study([], data, {})
    with tracked("circuits", len(jobs), shown=progress) as tracker:
        for name, kind, neurons, k in jobs:
            circuit = make_circuit(kind, neurons, data[name], sizes, (seed, k))
            found.results.append(measure(circuit, data[name], kind, k))
            if k == 0:
                found.circuits[name, kind, neurons] = circuit
            tracker.advance(1, note=f"{name}, {kind}, {neurons} neurons")
    return found


def planned(sizes: Sizes, seeds: int) -> Iterator[tuple[str, str, int, int]]:
    """Lists the system, the kind, the neurons and the number of the seed of every circuit."""
    for system in SYSTEMS:
        for kind, counts in sizes.neurons.items():
            for neurons in counts:
                for k in range(seeds):
                    yield system.name, kind, neurons, k


def make_circuit(kind: str, neurons: int, data: Data, sizes: Sizes, seed: tuple[int, int]) -> Follower:
    """Constructs or trains a circuit.

    RK4 runs a constructed circuit as an ODE, in float64. A trained circuit is run by the solver that it was trained
    with: RK4 for Eq. 1, and the fused solver for others.
    """
    system, dimensions = data.system, len(data.mean)
    random = np.random.default_rng([*seed, neurons])
    stages = [(max(1, round(part * system.horizon)), iterations) for part, iterations in sizes.stages]
    circuit: Follower
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        if kind == ONE_GATE:
            circuit = OneGateCircuit(dimensions, neurons, system.sample / ONE_GATE_PACE[system.name])
        else:
            pace = PACE[system.name]
            solver, unfolds = ("rk4", 1) if kind == CONSTRUCTED else ("fused", sizes.unfolds)
            circuit = ProofCircuit(dimensions, neurons, system.sample / pace, solver, unfolds)
            circuit.to(torch.float64 if kind == CONSTRUCTED else torch.float32)
            construct(circuit, data.train.reshape(-1, dimensions), data.slopes() * pace, random, RIDGE[kind])
    if kind != CONSTRUCTED:
        fit(circuit, data.train, data.valid, random, sizes.batch, stages)
    return circuit


@torch.no_grad()
def follow(circuit: Follower, truth: Array) -> Array:
    """Runs a circuit from the first points of rollouts (B, samples + 1, n), for as many samples."""
    start = torch.as_tensor(truth[:, 0], dtype=circuit.lift.weight.dtype)
    # In parts, because the reference scan of a large dense circuit keeps rows x synapses numbers.
    parts = [circuit(part, truth.shape[1] - 1) for part in start.split(ROWS)]
    run: Array = torch.cat(parts).double().numpy()
    return run


def measure(circuit: Follower, data: Data, kind: str, seed: int) -> Result:
    """Measures a circuit's errors on the test rollouts."""
    system, truth = data.system, data.test
    error = follow(circuit, truth) - truth
    distance = np.nan_to_num(np.linalg.norm(error, axis=-1), nan=np.inf)
    near = distance[:, : system.horizon + 1]
    lost = np.where((distance > LOST).any(axis=1), (distance > LOST).argmax(axis=1), distance.shape[1] - 1)
    pairs = np.stack([truth[:, :-1:EVERY], truth[:, 1::EVERY]], axis=2).reshape(-1, 2, truth.shape[-1])
    step = follow(circuit, pairs) - pairs
    cell = circuit.cell
    reversal = cell.E if isinstance(cell, LTC) else cast(NeuralLTC, cell).A
    return Result(
        system.name,
        kind,
        circuit.hidden,
        seed,
        peak=float(np.median(near.max(axis=1))),
        worst=float(near.max()),
        rms=float(np.sqrt((near**2).mean() / truth.shape[-1])),
        one_step=float(np.sqrt((step[:, 1] ** 2).mean())),
        followed=min(float(np.median(lost)) * system.sample / system.clock, float(CLOCKS)),
        potential=float(reversal.detach().abs().max()),
    )


def as_ode(circuit: Follower) -> Follower:
    """Copies a circuit so that RK4 runs it in float64, with one step a sample, instead of the solver it learnt with."""
    copied = copy.deepcopy(circuit).double()
    copied.cell.solver, copied.cell.unfolds = "rk4", 1
    return copied


@torch.no_grad()
def along_orbit(circuit: Follower, data: Data, kind: str) -> Pace:
    """Computes the time constants of a circuit's neurons and of the system along an orbit on the attractor."""
    system, cell = data.system, circuit.cell
    start = torch.as_tensor(data.orbit[:, 0], dtype=circuit.lift.weight.dtype)
    states = circuit.states(start, data.orbit.shape[1] - 1)[0]
    unit = (ONE_GATE_PACE if kind == ONE_GATE else PACE)[system.name]
    constants = cell.time_constants(states.new_zeros(len(states), 1), states)
    return Pace(
        np.arange(len(states), dtype=np.float64) * system.sample,
        time_scales(system, data.orbit[0] * data.std + data.mean),
        constants.double().numpy() * unit,
    )
