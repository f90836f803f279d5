"""Trains a circuit by gradients through a body's equations, so that what it does can be proved.

What is trained decides what can be proved: a loop in which all starts come together, with small weights, needs few
cells. So the loss has, besides the claims and the rest, the spread of a batch at its end and the size of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.base.progress import tracked
from ncp_control.neurons import Cell, DualLTC
from ncp_control.wiring import Plan, Wiring
from ncp_envs.equations import Equations

WIDER = 0.25  # starts are drawn from a box that is wider by this share on each side
MARGIN = 0.1  # a claim is trained to hold with this share of its box to spare
SHORTEST = 10  # periods of the first episodes
GROWING = 0.7  # of the iterations, in which episodes become longer
SOLVER_STEP = 0.1  # seconds at most, which is accurate enough for a gradient


@dataclass(frozen=True)
class Taught:
    """A circuit with the layer that reads its actions out.

    :param cell: the circuit
    :param readout: the layer
    :param loss: the loss of the last iterations
    """

    cell: Cell
    readout: nn.Linear
    loss: float


@dataclass(frozen=True)
class Lesson:
    """How a circuit is trained.

    :param iterations: steps of Adam
    :param batch: starts in each
    :param rate: the learning rate at the beginning, which falls to zero
    :param periods: the length of an episode; None for one and a half times the claims' horizon, from 60 to 200
    :param error: the greatest error of a sensor, as a share of its scale
    :param rest: how much the distance from the rest counts
    :param weights: how much the squares of the weights count
    :param spread: how much the spread of a batch counts, as a share of its spread in the beginning
    :param gain: how much it counts how far the error of one moment is carried, summed over all later ones
    :param action: how much the squares of the actions count
    :param time_constants: the shortest and the longest time constant, in periods
    """

    iterations: int = 400
    batch: int = 64
    rate: float = 2e-2
    periods: int | None = None
    error: float = 0.01
    weights: float = 1e-2
    spread: float = 0.3
    action: float = 1e-3
    gain: float = 3e-3
    rest: float = 0.1
    time_constants: tuple[float, float] = (0.2, 4.0)


def teach(
    body: Equations, plan: Plan | Wiring | int = 8, lesson: Lesson | None = None, seed: int = 0, progress: bool = False
) -> Taught:
    """Trains a circuit of `DualLTC` neurons on a body; the same seed gives the same circuit.

    :param body: the body
    :param plan: the circuit's wiring, or a number of fully connected neurons
    :param lesson: how it is trained
    :param seed: draws the weights and the starts
    :param progress: show a progress bar
    """
    lesson = Lesson() if lesson is None else lesson
    if not lesson.error > 0:
        raise ValueError(
            f"a lesson needs errors of the sensors above 0, to see how far they are carried; got {lesson.error}"
        )
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        cell = DualLTC(len(body.seen), plan, time_constants=lesson.time_constants)
        readout = nn.Linear(cell.outputs, body.actions)
    parameters = [*cell.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=lesson.rate)
    periods = lesson.periods or min(max(round(1.5 * body.horizon / body.period), 60), 200)
    losses: list[float] = []
    with tracked("through the body", lesson.iterations, shown=progress) as tracker:
        for k in range(lesson.iterations):
            for group in optimizer.param_groups:
                group["lr"] = lesson.rate * (1 - k / lesson.iterations)
            # Short episodes first: what falls at once teaches nothing later.
            length = min(max(SHORTEST, round(periods * k / (GROWING * lesson.iterations))), periods)
            states, actions = episode(body, cell, readout, lesson, length, random)
            loss = loss_of(body, states, actions, lesson)
            for weight in (cell.weight, cell.sensory_weight, readout.weight):
                loss = loss + lesson.weights * weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            tracker.advance(1, 1)
    with torch.no_grad():  # it was trained on observations in the body's scales, and is to read them as they are
        cell.sensory_weight.div_(torch.tensor(body.scales)[list(body.seen)][cell.sensory_source])
    return Taught(cell, readout, float(np.mean(losses[-10:])))


def episode(
    body: Equations, cell: Any, readout: nn.Linear, lesson: Lesson, periods: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Returns the states (T, B, m) after each period, and the actions (T, B, A)."""
    rows = lesson.batch
    low, high, scales = (torch.tensor(end, dtype=torch.float32) for end in (body.low, body.high, body.scales))
    room = WIDER * (high - low)
    drawn = torch.rand(rows, len(low), generator=random)
    start = low - room + drawn * (high - low + 2 * room)
    state = tuple(torch.cat([start, start]).unbind(1))
    neurons, constants = cell.initial_state(2 * rows), cell.constants()
    states, actions = [], []
    for k in range(periods):
        errors = (2 * torch.rand(rows, len(body.seen), generator=random) - 1).repeat(2, 1)
        if k == periods // 3:
            errors[rows:] += torch.randint(2, (rows, len(body.seen)), generator=random) * 2 - 1
        seen = torch.stack([state[number] / scales[number] for number in body.seen], 1) + lesson.error * errors
        neurons = cell.advance(constants, cell.sense(constants, seen), neurons, 1.0)
        wanted = readout(cell.motor(neurons))
        # Beyond the limits the gradient of a clipped action would vanish.
        action = body.strongest * torch.tanh(wanted / body.strongest)
        state = body.moved(state, tuple(action.unbind(1)), torch, SOLVER_STEP)
        states.append(torch.stack(state, 1))
        actions.append(action)
    return torch.stack(states), torch.stack(actions)


def loss_of(body: Equations, states: Tensor, actions: Tensor, lesson: Lesson) -> Tensor:
    """Returns the loss of a batch of episodes (T, B, m), without that of the weights."""
    count, scales = len(states), torch.tensor(body.scales)
    rows = states.shape[1] // 2
    carried = (states[count // 3 :, rows:] - states[count // 3 :, :rows]) / scales / lesson.error
    states, actions = states[:, :rows], actions[:, :rows]
    apart = ((states - torch.tensor(body.rest)) / scales).clamp(-30, 30)
    loss = lesson.rest * (apart[count // 4 :].square().mean() + apart[-count // 4 :].square().mean())
    # As a share of what it is in the beginning, so that it goes on shrinking when it is small.
    spread = apart[count // 4 :].std(1) / apart[0].std(0)
    loss = loss + lesson.spread * spread.clamp(max=3).mean()
    loss = loss + lesson.gain * carried.abs().sum(0).mean()
    loss = loss + lesson.action * actions.square().mean()
    for claim in body.claims:
        first, last = (round(time / body.period) for time in (claim.begin, claim.end))
        part = states[max(first - 1, 0) : last]
        if not len(part):
            continue
        low, high = torch.tensor(claim.low), torch.tensor(claim.high)
        room = torch.where((high - low).isfinite(), MARGIN * (high - low), 0.0)
        beyond = torch.relu(low + room - part) + torch.relu(part - high + room)
        loss = (
            loss + 10 * (beyond / scales).clamp(max=30).square().mean() + (beyond / scales).clamp(max=3).amax(0).mean()
        )
    return loss


def write_taught(body: Equations, taught: Taught, path: str | Path, note: dict[str, Any]) -> None:
    """Writes a circuit as a policy file, which every command takes.

    :param body: the body
    :param taught: the circuit
    :param path: the file
    :param note: the file's note, as JSON values
    """
    from ncp_control.rl.files.policy_file import write_policy
    from ncp_control.rl.policies.recurrent import policy_around

    policy = policy_around(taught.cell, [taught.readout], body.observation_space, body.action_space)
    write_policy(policy, path, {"env": body.env, **note})
