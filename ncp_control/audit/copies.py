"""How far two copies of an agent come apart: by errors, by their pasts, by what one synapse or one neuron carries.

What a certificate says of differences holds in exact arithmetic, so the copies compute in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.audit.sequences import Sequences
from ncp_control.audit.widest import AT_ONCE, MOST_ROWS, STEPS, longest_of, run
from ncp_control.base.intervals import Array, Interval
from ncp_control.rl.controller import Controller

ROWS = 128  # short sequences side by side
PAIRS = 8  # at least so many pairs of long sequences


@dataclass(frozen=True, eq=False)
class Probes:
    """Synapses and neurons whose values are replaced in one of two copies, R of them.

    :param sensory: whether the source is a number that the circuit reads
    :param source: the number of the source
    :param target: the neuron that sees the replaced value; -1 if all neurons see it
    :param layer: the layer of each neuron, (N,), as in `Known`
    :param values: what the source can be
    """

    sensory: NDArray[np.bool_]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    layer: NDArray[np.int64]
    values: Interval


@dataclass(frozen=True, eq=False)
class Carried:
    """What replaced values of `Probes` did.

    :param actions: how far they moved each action, (R, A)
    :param target: how far they moved the target, (R,)
    :param steepest: the least and the greatest change of the target in a solver step, as its source rose, (R,)
    """

    actions: Array
    target: Array
    steepest: Interval


class Copies:
    """Two copies of an agent in float64.

    :param controller: the agent
    :param drawn: draws the sequences
    :ivar inputs: how many observations the copies have seen
    :ivar longest: the steps of the longest sequence
    """

    def __init__(self, controller: Controller, drawn: Sequences) -> None:
        self.exact, self.drawn = copy.deepcopy(controller).double(), drawn
        self.low, self.high = drawn.low.double(), drawn.high.double()
        self.inputs = self.longest = 0

    def run(self, observations: Tensor, times: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the states (R, T, N) and the actions (R, T, A), or the values of choices."""
        self.inputs += times.numel()
        states, raw = run(self.exact, observations, times, state)
        return states, self.limited(raw)

    def limited(self, raw: Tensor) -> Tensor:
        """Returns the actions that the environment gets; the values of choices as they are."""
        return raw if self.exact.chooses else self.exact.limited(raw)

    def short(self, rows: int, steps: int) -> tuple[Tensor, Tensor]:
        """Returns short sequences of observations, and elapsed times."""
        observations, times = self.drawn.short(rows, steps)
        return observations.double(), times.double()

    def long(self, rows: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields long sequences in parts that fit into the memory."""
        size = max(self.exact.state_size, len(self.low), 1)
        part = max(1, min(steps, AT_ONCE // (2 * rows * size)))
        self.longest = max(self.longest, steps)
        for begun in range(0, steps, part):
            observations, times = self.drawn.long(rows, min(part, steps - begun))
            yield observations.double(), times.double()

    def now(self, errors: Array, inputs: int) -> Array:
        """Returns the farthest that errors of one observation moved each action in the same step, (A,).

        :param errors: the greatest error of each observation, (n,)
        :param inputs: how many observations to try
        """
        error, most = torch.as_tensor(errors), torch.zeros(len(self.exact.actions), dtype=torch.float64)
        enough = self.inputs + max(inputs, 1)
        while self.inputs < enough:
            observations, times = self.short(ROWS, STEPS)
            with torch.no_grad():
                states, _ = self.run(observations[:, :-1], times[:, :-1])
            here, last, state = observations[:, -1:].clone().requires_grad_(), times[:, -1:], states[:, -1]
            plain = self.run(here, last, state)[1][:, 0]
            for k in range(len(most)):
                slope = torch.autograd.grad(plain[:, k].sum(), here, retain_graph=True)[0]
                # To first order the worst error follows the signs of the slope; either direction may reach further.
                for sign in (1, -1):
                    moved = (here + sign * error * slope.sign()).clamp(self.low, self.high)
                    with torch.no_grad():
                        apart = (self.run(moved, last, state)[1][:, 0] - plain).abs()
                    most = torch.maximum(most, apart.detach().amax(0))
        return np.asarray(most)

    @torch.no_grad()
    def always(self, errors: Array, inputs: int) -> Array:
        """Returns the farthest that errors of all observations moved each action, (A,)."""
        pairs, steps = self._shape(inputs)
        error, most = torch.as_tensor(errors), torch.zeros(len(self.exact.actions), dtype=torch.float64)
        sign = self.drawn.uniform(pairs, 1, len(error)).round() * 2 - 1
        state: Tensor | None = None
        for observations, times in self.long(pairs, steps):
            # Errors of one sign add up in slow neurons; in three of ten pairs the signs change at random.
            flips = self.drawn.uniform(*observations.shape) < 0.5 * (self.drawn.chance(pairs, 0.3))
            wrong = (observations + error * torch.where(flips, -sign, sign)).clamp(self.low, self.high)
            states, actions = self.run(torch.cat([observations, wrong]), times.repeat(2, 1), state)
            state = states[:, -1]
            most = torch.maximum(most, (actions[:pairs] - actions[pairs:]).abs().amax((0, 1)))
        return np.asarray(most)

    @torch.no_grad()
    def kept(self, allowed: Array, inputs: int) -> int:
        """Returns for how many steps two pasts kept some action further apart than allowed, (A,)."""
        if not self.exact.state_size:
            return 0
        pairs, steps = self._shape(inputs)
        state = torch.cat([self.run(*self.short(pairs, STEPS))[0][:, -1] for _ in range(2)])
        enough, last, done = torch.as_tensor(allowed), 0, 0
        for observations, times in self.long(pairs, steps):
            states, actions = self.run(observations.repeat(2, 1, 1), times.repeat(2, 1), state)
            state = states[:, -1]
            apart = ((actions[:pairs] - actions[pairs:]).abs() > enough).any(2).any(0)
            if apart.any():
                last = done + int(apart.nonzero().max()) + 1
            done += observations.shape[1]
        return last

    @torch.no_grad()
    def raised(self, inputs: int) -> Interval:
        """Returns the least and the greatest change of each action (A, n) while one sensor is higher in all steps."""
        n, steps = len(self.low), 5 * STEPS
        rows = max(1, inputs // (2 * n * steps))
        sensor, every = torch.arange(n).repeat(rows), torch.arange(rows * n)
        observations, times = next(self.long(len(sensor), steps))
        higher = observations.clone()
        room = self.high[sensor, None] - higher[every, :, sensor]
        higher[every, :, sensor] += self.drawn.uniform(len(sensor), 1) * room
        _, actions = self.run(torch.cat([observations, higher]), times.repeat(2, 1))
        change = (actions[len(sensor) :] - actions[: len(sensor)]).unflatten(0, (rows, n))
        least, most = change.amin((0, 2)), change.amax((0, 2))
        return Interval(*(end.T.numpy() for end in (least, most)))

    @torch.no_grad()
    def carried(self, probes: Probes, steps: int, substeps: int) -> Carried:
        """Lets one of two copies see replaced values of a source, and returns how far the copies come apart.

        :param probes: what is replaced
        :param steps: for how many steps
        :param substeps: how many solver steps a step has
        """
        cell, rows = self._solver_step(), len(probes.source)
        constants, every = cell.constants(), torch.arange(rows)
        source, target = torch.as_tensor(probes.source), torch.as_tensor(probes.target)
        sensory, whole = torch.as_tensor(probes.sensory), torch.as_tensor(probes.target < 0)
        inner, aimed, layer = ~sensory, every[~whole], torch.as_tensor(probes.layer)
        earlier = (layer < layer[target][:, None]) & ~whole[:, None]
        later = (layer > layer[target][:, None]) & ~whole[:, None]
        passed_on = bool(later.any())  # within a step
        itself = torch.zeros_like(earlier)
        itself[every[inner], source[inner]] = True
        # A replaced neuron shows its value to all; where one target alone sees it, earlier layers have been computed.
        held = torch.where(whole[:, None], itself, earlier)
        ends = [torch.as_tensor(np.clip(end, -1e9, 1e9)) for end in probes.values]  # none can draw up to infinity
        observations, times = (drawn.double() for drawn in self.drawn.long(rows, steps))
        values = ends[0][:, None] + self.drawn.levels(rows, steps, 1)[..., 0] * (ends[1] - ends[0])[:, None]
        self.inputs += 2 * rows * steps
        plain = changed = self.exact.initial_state(rows)
        moved, extremes = torch.zeros(rows, len(self.exact.actions), dtype=torch.float64), torch.zeros(rows, 3).double()
        for t in range(steps):
            seen = self.exact.features(observations[:, t], times[:, t])
            wrong = seen.clone()
            wrong[every[sensory], source[sensory]] = values[sensory, t]
            sensed, misled = cell.sense(constants, torch.cat([seen, wrong])).chunk(2)
            span = (times[:, t] / substeps)[:, None]
            for _ in range(substeps):
                both = torch.cat([plain, changed])
                plain, usual = cell.advance(constants, sensed.repeat(2, 1), both, span.repeat(2, 1)).chunk(2)
                replaced = torch.where(earlier, usual, changed)
                rise = values[:, t] - torch.cat([replaced, seen], 1)[every, source + sensory * cell.units]
                replaced[every[inner], source[inner]] = values[inner, t]
                altered = cell.advance_held(constants, misled, replaced, span, held)
                steep = (altered - usual)[every, target] * rise.sign()
                usual[aimed, target[aimed]] = altered[aimed, target[aimed]]
                # Layers behind the target's read what it has become, still in this solver step.
                if passed_on:
                    read = torch.where(later, changed, usual)
                    usual = cell.advance_held(constants, sensed, read, span, ~later)
                changed = torch.where(whole[:, None], altered, usual)
                changed[every[whole], source[whole]] = values[whole, t]
                apart = (plain - changed)[every, target].abs()
                extremes = torch.stack([torch.maximum(extremes[:, 0], apart), torch.minimum(extremes[:, 1], steep),
                                     torch.maximum(extremes[:, 2], steep)], dim=1)  # fmt: skip
            actions = [self.limited(self.exact.head(cell.motor(state))) for state in (plain, changed)]
            moved = torch.maximum(moved, (actions[0] - actions[1]).abs())
        apart, least, most = extremes.T.numpy()
        return Carried(moved.numpy(), apart, Interval(least, most))

    def _shape(self, inputs: int) -> tuple[int, int]:
        """Returns how many pairs of long sequences, and of how many steps, make so many observations."""
        steps = max(1, min(longest_of(self.exact), inputs // (2 * PAIRS)))
        return max(PAIRS, min(MOST_ROWS, inputs // (2 * steps))), steps

    def _solver_step(self) -> Any:
        """Returns a copy of the circuit's cell that makes one solver step at a time, for values to be replaced."""
        assert self.exact.rnn is not None
        cell: Any = copy.deepcopy(self.exact.rnn.cell)
        cell.refresh()
        if hasattr(cell, "unfolds"):
            cell.unfolds = 1
        return cell
