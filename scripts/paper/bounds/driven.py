"""How far states and time constants of trained networks go when their inputs grow: Theorems 1 and 2 of the LTC paper.

Theorem 1 bounds the system time constants of an LTC and Theorem 2 its states, both by parameters alone. Here networks
learn a small task and are then driven with far larger inputs; their states are compared with their cells' bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.neurons import CTRNN, LSTM, LTC, Cell, CfC, NeuralLTC, NeuralODE
from ncp_control.ops import scan
from ncp_control.rnn import RNN
from ncp_control.wiring import AutoNCP

LIQUID, NEURAL, TANH, CLOSED_FORM = "LTC", "NeuralLTC", "NeuralLTC, tanh", "CfC"
RECURRENT, MEMORY, NEURAL_ODE = "CT-RNN", "LSTM", "Neural ODE"
# The networks, and what the papers say about their states.
NETWORKS = {
    **dict.fromkeys((LIQUID, NEURAL, TANH), "bounded"),
    CLOSED_FORM: "",
    **dict.fromkeys((RECURRENT, MEMORY, NEURAL_ODE), "unbounded"),
}
MAGNITUDES = tuple(10.0**k for k in range(7))
LAG = 5  # steps that the task asks a network to remember
WARM_UP = 10  # steps that are not scored
ROUNDING = 4.0  # in units of the last place of max(1, |bound|); a step is a dozen roundings of half of one
CHUNK = 1000


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    :param units: neurons of every network
    :param batches: batches of the training
    :param steps: steps for each magnitude of inputs
    :param long: steps of the long run with the largest inputs
    :param rows: directions of each kind of input
    :param solver_steps: steps for which other solvers run
    """

    units: int = 16
    batches: int = 400
    steps: int = 300
    long: int = 10_000
    rows: int = 8
    solver_steps: int = 40


FULL = Sizes(units=32, batches=1000, steps=2000, long=100_000, rows=32)


@dataclass(frozen=True)
class Contestant:
    """A network to drive.

    :param name: its name in tables and pictures
    :param cell: the trained cell
    :param said: what the papers say about its states
    :param bounding: a cell with the same parameters, whose bounds should hold
    :param error: the error of its task over the standard deviation; None if it was trained for another task
    """

    name: str
    cell: Cell
    said: str
    bounding: Cell
    error: float | None = None


class Reach(NamedTuple):
    """How far states and time constants went at one magnitude of inputs.

    :param largest: the largest `|state|`; infinite after an overflow
    :param shortest: the shortest time constant of each neuron
    :param longest: the longest time constant of each neuron
    :param state_margin: the smallest distance of a state from its bounds, negative outside; infinite without bounds
    :param tau_margin: the smallest distance of a time constant from its bounds, relative to them
    :param states_inside: whether all states are inside, except for rounding
    :param taus_inside: whether all time constants are inside, except for rounding
    """

    largest: float
    shortest: list[float]
    longest: list[float]
    state_margin: float
    tau_margin: float
    states_inside: bool
    taus_inside: bool


@dataclass(frozen=True)
class Driven:
    """The result of driving a network.

    :param contestant: the network
    :param by_magnitude: how far it went, for each of MAGNITUDES
    :param by_time: the largest `|state|` within 1, 2, 4, ... steps of the largest constant inputs
    """

    contestant: Contestant
    by_magnitude: list[Reach] = field(default_factory=list)
    by_time: dict[int, float] = field(default_factory=dict)

    @property
    def inside(self) -> tuple[bool, bool]:
        """Whether all states stayed inside their bounds, and whether all time constants did."""
        return all(one.states_inside for one in self.by_magnitude), all(one.taus_inside for one in self.by_magnitude)

    @property
    def margins(self) -> tuple[float, float]:
        """The smallest distance of a state, and of a time constant, from its bounds."""
        return min(one.state_margin for one in self.by_magnitude), min(one.tau_margin for one in self.by_magnitude)

    @property
    def state_bound(self) -> float:
        """The largest `|state|` that the bounds allow; infinite without bounds."""
        return max(float(bound.detach().abs().max()) for bound in self.contestant.bounding.state_bounds())

    @property
    def grows(self) -> bool:
        """Whether the largest `|state|` more than doubles while the number of steps grows fourfold."""
        steps = max(self.by_time)
        before = max(step for step in self.by_time if step <= steps / 4)
        return self.by_time[steps] > 2 * self.by_time[before]


def task(rows: int, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws sines and cosines of random frequency, phase and size (B, T, 2), and the sines LAG steps ago (B, T, 1)."""
    frequency = 0.1 + 0.5 * torch.rand(rows, 1, generator=generator)
    phase = 2 * torch.pi * torch.rand(rows, 1, generator=generator)
    size = 0.5 + torch.rand(rows, 1, generator=generator)
    angle = frequency * torch.arange(-LAG, steps) + phase
    wave = size[..., None] * torch.stack([torch.sin(angle), torch.cos(angle)], dim=-1)
    return wave[:, LAG:], wave[:, :steps, :1]


def train(cell: Cell, batches: int, rate: float, generator: torch.Generator) -> float:
    """Trains a cell by Adam; returns its error on new waves over their standard deviation."""
    rnn, readout = RNN(cell), nn.Linear(cell.outputs, 1)
    optimizer = torch.optim.Adam([*rnn.parameters(), *readout.parameters()], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, batches)

    def error(rows: int) -> Tensor:
        inputs, target = task(rows, 50, generator)
        said: Tensor = readout(rnn(inputs)[0])
        return (said - target)[:, WARM_UP:].square().mean() / target.var()

    for _ in range(batches):
        optimizer.zero_grad()
        error(32).backward()
        nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float(error(256).sqrt())


def train_one(name: str, sizes: Sizes, seed: int) -> Contestant:
    """Trains one of NETWORKS on the task."""
    plan = AutoNCP(sizes.units, sizes.units // 4, seed=seed)
    makers: dict[str, Callable[[], Cell]] = {
        LIQUID: lambda: LTC(2, plan, init="centred", time_constants=(0.5, 10.0)),
        NEURAL: lambda: NeuralLTC(2, plan, time_constants=(0.5, 5.0)),
        TANH: lambda: NeuralLTC(2, plan, activation="tanh", time_constants=(0.5, 5.0)),
        CLOSED_FORM: lambda: CfC(2, plan),
        RECURRENT: lambda: CTRNN(2, sizes.units, solver="fused"),
        MEMORY: lambda: LSTM(2, sizes.units),
        NEURAL_ODE: lambda: NeuralODE(2, sizes.units, weight_variance=0.03),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = makers[name]()
        rate = 0.005 if name == NEURAL_ODE else 0.01  # without a leak, training diverges at larger rates
        error = train(cell, sizes.batches, rate, torch.Generator().manual_seed(seed))
        bounding: Cell = cell
        if name == TANH:  # Eq. 4 and 5 are for a sigmoid
            bounding = NeuralLTC(2, plan)
            bounding.load_state_dict(cell.state_dict())
    return Contestant(name, cell, NETWORKS[name], bounding, error)


def signals(magnitude: float, sizes: Sizes, inputs: int, generator: torch.Generator) -> Tensor:
    """Makes constant, alternating, random and growing inputs of a magnitude, (4 rows, steps, I)."""
    shape, time = (sizes.rows, 1, inputs), torch.arange(sizes.steps)[:, None]
    direction = 2 * torch.rand(shape, generator=generator) - 1
    kinds = [
        direction.expand(-1, sizes.steps, -1),
        direction * (1 - 2 * (time % 2)),
        torch.randn(sizes.rows, sizes.steps, inputs, generator=generator),
        direction * magnitude ** ((time + 1) / sizes.steps - 1),
    ]
    return magnitude * torch.cat(kinds)


@torch.no_grad()
def drive(contestant: Contestant, sizes: Sizes, seed: int) -> Driven:
    """Drives a network with inputs of every magnitude, and for a long time with the largest."""
    generator = torch.Generator().manual_seed(seed)
    cell, found = contestant.cell, Driven(contestant)
    for magnitude in MAGNITUDES:
        inputs = signals(magnitude, sizes, cell.inputs, generator)
        found.by_magnitude.append(reach(contestant, inputs, scan(cell, inputs)))
    inputs = MAGNITUDES[-1] * (2 * torch.rand(sizes.rows, 1, cell.inputs, generator=generator) - 1)
    state, largest, done = None, 0.0, 0
    while done < sizes.long:
        chunk = min(CHUNK, sizes.long - done)
        states = scan(cell, inputs.expand(-1, chunk, -1), state)
        sofar = lost_is_infinite(states).abs().amax(dim=(0, 2)).cummax(dim=0).values.clamp(min=largest)
        for step in range(done + 1, done + chunk + 1):
            if step & (step - 1) == 0 or step == sizes.long:
                found.by_time[step] = float(sofar[step - done - 1])
        state, largest, done = states[:, -1], float(sofar[-1]), done + chunk
    return found


@torch.no_grad()
def reach(contestant: Contestant, inputs: Tensor, states: Tensor) -> Reach:
    """Measures how far states (B, T, S) went, and the time constants at these states and inputs (B, T, I)."""
    bounding, states = contestant.bounding, lost_is_infinite(states)
    taus = lost_is_infinite(contestant.cell.time_constants(inputs.flatten(0, 1), states.flatten(0, 1)))
    state_margin, states_inside = margins(states, bounding.state_bounds(), relative=False)
    tau_margin, taus_inside = margins(taus, bounding.time_constant_bounds(), relative=True)
    extremes = taus.amin(dim=0).tolist(), taus.amax(dim=0).tolist()
    return Reach(float(states.abs().max()), *extremes, state_margin, tau_margin, states_inside, taus_inside)


def lost_is_infinite(values: Tensor) -> Tensor:
    """Replaces NaN, which an overflow leaves, by infinity."""
    return torch.where(values.isnan(), torch.inf, values)


def margins(values: Tensor, bounds: tuple[Tensor, Tensor], relative: bool) -> tuple[float, bool]:
    """Returns the smallest distance of values (..., N) from their bounds (N,), and whether all are inside.

    Values outside by no more than a rounding error count as inside.

    :param relative: measure distances in parts of the bound
    """
    slack = ROUNDING * torch.finfo(values.dtype).eps
    smallest, inside = float("inf"), True
    for bound, distance in ((bounds[0], values - bounds[0]), (bounds[1], bounds[1] - values)):
        finite = bound.isfinite().expand_as(values)
        size = (bound.abs() if relative else bound.abs().clamp(min=1.0)).expand_as(values)[finite]
        distance = distance[finite]
        inside = inside and bool((distance >= -slack * size).all())
        distance = distance[size > 0] / size[size > 0] if relative else distance
        smallest = min([smallest, float(distance.min())] if len(distance) else [smallest])
    return smallest, inside
