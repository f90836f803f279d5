"""How far states and time constants of trained networks go when their inputs grow: Theorems 1 and 2 of the LTC paper.

Theorem 1 bounds the system time constants of an LTC, Theorem 2 its states, both by parameters alone. Here networks that
have learnt a small task are driven with far larger inputs, and held to the bounds that their cells give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ncp_control.cells import CTRNN, LSTM, LTC, Cell, CfC, NeuralLTC, NeuralODE
from ncp_control.ops import scan
from ncp_control.rnn import RNN
from ncp_control.wiring import AutoNCP

LIQUID, NEURAL, TANH, CLOSED_FORM = "LTC", "NeuralLTC", "NeuralLTC, tanh", "CfC"
RECURRENT, MEMORY, NEURAL_ODE = "CT-RNN", "LSTM", "Neural ODE"
# And what the papers say of their states.
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
    """How much is done.

    :param units: neurons of every network
    :param batches: of the training
    :param steps: that inputs of each magnitude last
    :param long: that the largest ones last
    :param rows: directions of each kind of input
    :param solver_steps: that other solvers run
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

    :param name: in tables and pictures
    :param cell: with its weights
    :param said: what the papers say of its states
    :param judge: the cell whose bounds it is held to; it has the same parameters
    :param error: of its task, over the standard deviation; None where it was trained for something else
    """

    name: str
    cell: Cell
    said: str
    judge: Cell
    error: float | None = None


class Reach(NamedTuple):
    """How far one went at one magnitude of inputs.

    :param largest: `|state|`; infinite where a number overflowed
    :param shortest, longest: time constant of every neuron at any moment
    :param state_margin: the smallest distance of a state from its bounds, negative outside; infinite without bounds
    :param tau_margin: of a time constant from its bounds, relative to them
    :param states_inside: whether all states are inside, but for rounding
    :param taus_inside: whether all time constants are
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
    """What came of driving one.

    :param by_magnitude: for each of MAGNITUDES
    :param by_time: the largest `|state|` so far after 1, 2, 4, ... steps under the largest constant inputs
    """

    contestant: Contestant
    by_magnitude: list[Reach] = field(default_factory=list)
    by_time: dict[int, float] = field(default_factory=dict)

    @property
    def inside(self) -> tuple[bool, bool]:
        """Whether all states, and all time constants, stayed inside."""
        return all(one.states_inside for one in self.by_magnitude), all(one.taus_inside for one in self.by_magnitude)

    @property
    def margins(self) -> tuple[float, float]:
        """The smallest distance of a state, and of a time constant, from its bounds."""
        return min(one.state_margin for one in self.by_magnitude), min(one.tau_margin for one in self.by_magnitude)

    @property
    def state_bound(self) -> float:
        """The largest that `|state|` may be; infinite where there is no bound."""
        return max(float(bound.detach().abs().max()) for bound in self.contestant.judge.state_bounds())

    @property
    def grows(self) -> bool:
        """Whether the largest `|state|` still doubles when four times as many steps pass."""
        steps = max(self.by_time)
        before = max(step for step in self.by_time if step <= steps / 4)
        return self.by_time[steps] > 2 * self.by_time[before]


def task(rows: int, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sine and cosine of unknown frequency, phase and size (B, T, 2), and the sine LAG steps ago (B, T, 1)."""
    frequency = 0.1 + 0.5 * torch.rand(rows, 1, generator=generator)
    phase = 2 * torch.pi * torch.rand(rows, 1, generator=generator)
    size = 0.5 + torch.rand(rows, 1, generator=generator)
    angle = frequency * torch.arange(-LAG, steps) + phase
    wave = size[..., None] * torch.stack([torch.sin(angle), torch.cos(angle)], dim=-1)
    return wave[:, LAG:], wave[:, :steps, :1]


def train(cell: Cell, batches: int, rate: float, generator: torch.Generator) -> float:
    """Teaches a cell the task, by Adam; its error on new waves, over their standard deviation."""
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
    """One of NETWORKS that has learnt the task."""
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
        rate = 0.005 if name == NEURAL_ODE else 0.01  # where nothing leaks, training is lost at larger ones
        error = train(cell, sizes.batches, rate, torch.Generator().manual_seed(seed))
        judge = cell
        if name == TANH:  # Eq. 4 and 5 are those of a sigmoid
            judge = NeuralLTC(2, plan)
            judge.load_state_dict(cell.state_dict())
    return Contestant(name, cell, NETWORKS[name], judge, error)


def signals(magnitude: float, sizes: Sizes, inputs: int, generator: torch.Generator) -> Tensor:
    """Constant, alternating, random and growing inputs of that magnitude, (4 rows, steps, I)."""
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
    """Drives it with inputs of every magnitude, and for long with the largest."""
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
    """How far states (B, T, S) went, and the time constants at them and inputs (B, T, I)."""
    judge, states = contestant.judge, lost_is_infinite(states)
    taus = lost_is_infinite(contestant.cell.time_constants(inputs.flatten(0, 1), states.flatten(0, 1)))
    state_margin, states_inside = margins(states, judge.state_bounds(), relative=False)
    tau_margin, taus_inside = margins(taus, judge.time_constant_bounds(), relative=True)
    extremes = taus.amin(dim=0).tolist(), taus.amax(dim=0).tolist()
    return Reach(float(states.abs().max()), *extremes, state_margin, tau_margin, states_inside, taus_inside)


def lost_is_infinite(values: Tensor) -> Tensor:
    """What is not a number any more, after an overflow, as infinity."""
    return torch.where(values.isnan(), torch.inf, values)


def margins(values: Tensor, bounds: tuple[Tensor, Tensor], relative: bool) -> tuple[float, bool]:
    """The smallest distance of values (..., N) from their bounds (N,), and whether all are inside, but for rounding.

    :param relative: in parts of the bound
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
