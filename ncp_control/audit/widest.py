"""The search for what breaks a certificate: the widest values that an agent reaches inside the certified box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.audit.sequences import Sequences
from ncp_control.base.intervals import Interval
from ncp_control.ops import explain_backends
from ncp_control.rl.controller import Controller

STEPS = 6  # of a short sequence; the climbing goes on from where a sequence ends
LONGEST, SLOW = 10_000, 1_000  # steps of a long sequence, and of a cell without compiled code
ROWS = 512  # of a batch of short sequences
MOST_ROWS = 64  # of a batch of long ones
AT_ONCE = 2_000_000  # numbers of observations and of states that a scan of long sequences may make
COPIES = 4  # so many sequences climb for each target
CREEPERS, CHOICES = 4, 64  # sequences that go on step by step, and observations among which each of them chooses
EXCHANGE = 10  # after so many changes the best sequence of a target takes the place of others


@dataclass(frozen=True, eq=False)
class Reached:
    """The widest values that an attack reached.

    :param states: the least and the greatest value of every number of the state; infinite where one was NaN
    :param time_constants: the same of every neuron's time constant, where it is known
    :param raw: the same of the actions before clipping
    :param lost: which actions were NaN, (A,)
    :param made: which choices were made, (A,)
    :param longest: the steps of the longest sequence
    """

    states: Interval
    time_constants: Interval
    raw: Interval
    lost: NDArray[np.bool_]
    made: NDArray[np.bool_]
    longest: int


class Attacker:
    """Draws observations from a box, and climbs from the best of them towards wider values.

    Every number of the state and every action has two targets: its least and its greatest value. A target's sequences
    are changed by a step along the sign of the gradient, by new values in some places, and by small noise; a change
    stays if it reaches further. Long sequences go on from where the best of them end.

    :param controller: the agent in float32, with the scan that it acts with
    :param drawn: draws the sequences
    :ivar inputs: how many observations the agent has seen
    """

    def __init__(self, controller: Controller, drawn: Sequences) -> None:
        self.controller, self.drawn = controller, drawn
        self.size, self.actions = controller.state_size, len(controller.actions)
        self.inputs = self.longest = 0
        self.widest = torch.full((2 * (self.size + self.actions),), -torch.inf)
        self.best = torch.zeros(len(self.widest), STEPS, len(drawn.low))
        self.times = torch.ones(len(self.widest), STEPS)
        self.lost, self.made = torch.zeros(2, self.actions, dtype=torch.bool)
        self.pool: list[Tensor] = []
        self.turn = 0
        units = 0 if controller.rnn is None else controller.rnn.cell.units
        # The ends are the wrong way round until a time constant is seen.
        self.time_constants = torch.stack([torch.full((units,), end) for end in (torch.inf, 0.0)])
        self.slowest = drawn.at(torch.full((units, len(drawn.low)), 0.5))

    def run(self, observations: Tensor, times: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the states (R, T, N) and the actions before clipping (R, T, A) along sequences of observations."""
        self.inputs += times.numel()
        self.longest = max(self.longest, times.shape[1])
        states, raw = run(self.controller, observations, times, state)
        self.lost |= raw.isnan().flatten(0, 1).any(0)
        return states, raw

    def explore(self, inputs: int) -> None:
        """Tries random sequences until that many observations were seen, and keeps the widest of each target."""
        while self.inputs < inputs:
            self.note(*self.drawn.short(ROWS, STEPS))

    def note(self, observations: Tensor, times: Tensor, start: Tensor | None = None) -> Tensor:
        """Keeps the sequences that reach further than those before, and returns the states where these end, (R, N)."""
        with torch.no_grad():
            states, raw = self.run(observations, times, start)
            reached = furthest(states, raw)
            self._note_time_constants(observations, times, states)
        if self.controller.chooses:
            self.made[raw.argmax(-1).unique()] = True
        value, row = reached.max(0)
        better = value > self.widest
        self.widest[better] = value[better]
        kept = row[better]
        if observations.shape[1] == STEPS:
            self.best[better], self.times[better] = observations[kept], times[kept]
        return states[:, -1]

    def _note_time_constants(self, observations: Tensor, times: Tensor, states: Tensor) -> None:
        """Notes the time constants at the end of each sequence."""
        rnn = self.controller.rnn
        if rnn is None or states.shape[1] < 2:
            return
        features = self.controller.features(observations[:, -1], times[:, -1])
        constants = rnn.cell.time_constants(features, states[:, -2])  # the last step started from this state
        known = ~constants.isnan().any(0)
        low, (high, row) = constants.amin(0), constants.max(0)
        slower = known & (high >= self.time_constants[1])
        self.slowest[slower] = observations[row[slower], -1]
        self.time_constants[0, known] = torch.minimum(self.time_constants[0], low)[known]
        self.time_constants[1, known] = torch.maximum(self.time_constants[1], high)[known]

    def climb(self, inputs: int) -> None:
        """Changes the best sequences of all targets until that many observations were seen."""
        if not self.pool:
            x, t = (values.repeat_interleave(COPIES, 0) for values in (self.best, self.times))
            start = self.controller.initial_state(len(x))
            self.pool = [x, t, start, self._values(x, t, start)]
        x, t, start, value = self.pool
        while self.inputs < inputs:
            self.turn += 1
            tried = self._changed(x, t, start)
            reached = self._values(*tried, start)
            better = reached > value
            x[better], t[better], value[better] = tried[0][better], tried[1][better], reached[better]
            if self.turn % EXCHANGE == 0:
                self._share_best(x, t, start, value)

    def _share_best(self, x: Tensor, t: Tensor, start: Tensor, value: Tensor) -> None:
        """Replaces half of every target's sequences by the one that reaches furthest for it, whichever target's it was.

        Then a sequence starts where it has ended if that reaches further: slow neurons need more than a few steps.
        """
        first = self._all(x, t, start).argmax(0)
        for values in (x, t, start):
            part = values.view(len(first), COPIES, *values.shape[1:])
            part[:, COPIES // 2 :] = values[first][:, None]
        # In place, because `pool` holds the same tensors.
        value.copy_(self._values(x, t, start))
        with torch.no_grad():
            last = self.run(x, t, start)[0][:, -1]
        further = self._values(x, t, last)
        better = further > value
        start[better], value[better] = last[better], further[better]

    def _values(self, x: Tensor, t: Tensor, start: Tensor) -> Tensor:
        """Returns how far each sequence reaches its own target, (R,)."""
        return self._all(x, t, start)[torch.arange(len(x)), self._targets(len(x))]

    def _all(self, x: Tensor, t: Tensor, start: Tensor) -> Tensor:
        """Returns how far each sequence reaches every target, (R, targets), and notes the widest."""
        with torch.no_grad():
            reached = furthest(*self.run(x, t, start))
        self.widest = torch.maximum(self.widest, reached.amax(0))
        return reached

    def _targets(self, rows: int) -> Tensor:
        return torch.arange(len(self.widest)).repeat_interleave(rows // len(self.widest))

    def _changed(self, x: Tensor, t: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the sequences with a change of the turn's kind, still in the box."""
        drawn, rows, kind = self.drawn, len(x), self.turn % 4
        if kind == 0:
            step = drawn.uniform(rows, 1, 1) ** 3 * drawn.span  # most steps are small, and some cross the box
            return (x + step * self._gradient(x, t, start).sign()).clamp(drawn.low, drawn.high), t
        chosen = drawn.uniform(*x.shape) < 0.3 * drawn.uniform(rows, 1, 1)
        fresh, times = drawn.short(rows, STEPS)
        if kind == 1:
            noise = torch.randn(x.shape, generator=drawn.random)
            fresh = (x + 0.1 * drawn.span * noise).clamp(drawn.low, drawn.high)
        elif kind == 2:  # a sensor changes in all steps or in none
            chosen = chosen[:, :1].expand_as(chosen)
        return torch.where(chosen, fresh, x), torch.where(chosen[..., 0], times, t)

    def _gradient(self, x: Tensor, t: Tensor, start: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        signs = torch.ones(len(self.widest)).index_fill(0, torch.arange(len(self.widest) // 2, len(self.widest)), -1.0)
        which = self._targets(len(x))
        every = torch.cat(self.run(x, t, start), dim=2)
        own = every[torch.arange(len(x)), :, which % (len(self.widest) // 2)] * signs[which][:, None]
        # No sequence depends on another one, so the gradient of the sum holds the gradients of all.
        return torch.autograd.grad(own.amax(1).sum(), x)[0].nan_to_num()

    def creep(self, inputs: int) -> None:
        """Goes on step by step from where some targets' sequences end, each time with the best of a few observations.

        In this way even rounding adds up while a gate keeps a state.
        """
        targets = torch.randperm(len(self.widest), generator=self.drawn.random).repeat(CREEPERS)[:CREEPERS]
        if self.controller.rnn is None or self.inputs >= inputs:
            return
        state, rows = self.ends(targets), CREEPERS * CHOICES
        while self.inputs < inputs:
            held = self.slowest[self.drawn.integers(len(self.slowest), rows)]
            fresh = self.drawn.at(self.drawn.uniform(*held.shape))
            free = self.drawn.uniform(*held.shape) < self.drawn.uniform(rows, 1)
            observations = torch.where(free, fresh, held)[:, None]
            with torch.no_grad():
                states, raw = self.run(observations, self.drawn.times(rows, 1), state.repeat_interleave(CHOICES, 0))
                reached = furthest(states, raw)
            self.widest = torch.maximum(self.widest, reached.amax(0))
            own = reached[torch.arange(rows), targets.repeat_interleave(CHOICES)].view(CREEPERS, CHOICES)
            state = states[:, 0].view(CREEPERS, CHOICES, -1)[torch.arange(CREEPERS), own.argmax(1)]

    def go_on(self, inputs: int) -> None:
        """Runs long sequences from the states to which the climbing has led, until that many observations were seen.

        Rounding adds up visibly only where states stay at their ends for thousands of steps. So some numbers of each
        observation stay what they were when a neuron was slowest.
        """
        left = inputs - self.inputs
        if self.controller.rnn is None or left <= 0:
            return
        rows = max(1, min(left // longest_of(self.controller), MOST_ROWS))
        steps = left // rows
        state = self.ends(self.drawn.integers(len(self.widest), rows))
        held = self.slowest[self.drawn.integers(len(self.slowest), rows)]
        part = max(1, min(LONGEST, AT_ONCE // (rows * max(self.size, len(self.drawn.low)))))
        for begun in range(0, steps, part):
            state = self.note(*self.drawn.long(rows, min(part, steps - begun), held), state)
        self.longest = max(self.longest, steps)

    def ends(self, targets: Tensor) -> Tensor:
        """Returns the states in which the best sequences of some targets reach furthest, (targets, N)."""
        if not self.pool:
            return self.controller.initial_state(len(targets))
        x, t, start, value = self.pool
        row = COPIES * targets + value.view(-1, COPIES)[targets].argmax(1)
        half = len(self.widest) // 2
        with torch.no_grad():
            states, raw = self.run(x[row], t[row], start[row])
            every = torch.cat([states, raw], dim=2)[torch.arange(len(row)), :, targets % half]
            furthest_at = torch.where((targets < half)[:, None], every, -every).argmax(1)
        return states[torch.arange(len(row)), furthest_at]

    def reached(self) -> Reached:
        """Returns everything that was reached."""
        half = len(self.widest) // 2
        high, low = self.widest[:half].double().numpy(), -self.widest[half:].double().numpy()
        states = Interval(np.minimum(low[: self.size], 0), np.maximum(high[: self.size], 0))  # where episodes begin
        raw = Interval(low[self.size :], high[self.size :])
        times = Interval(*self.time_constants.double().numpy())
        return Reached(states, times, raw, self.lost.numpy(), self.made.numpy(), self.longest)


def longest_of(controller: Controller) -> int:
    """Returns how many steps a long sequence has, so that it takes about a tenth of a second."""
    if controller.rnn is None:
        return SLOW
    cell = controller.rnn.cell
    return LONGEST if explain_backends(cell, torch.zeros(1, 1, cell.inputs, dtype=cell.dtype))["cpu"][0] else SLOW


def run(
    controller: Controller, observations: Tensor, times: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the states (R, T, N) and the actions before clipping (R, T, A) along sequences of observations.

    :param observations: (R, T, n)
    :param times: (R, T)
    :param state: where the sequences start, (R, N); None is the start of an episode
    """
    rows, steps = times.shape
    features = controller.features(observations.flatten(0, 1), times.flatten()).unflatten(0, (rows, steps))
    states, outputs = features.new_zeros(rows, steps, 0), features
    if controller.rnn is not None:
        start = controller.initial_state(rows) if state is None else state
        outputs, _, states = controller.rnn(features, start, times, states=True)
    return states, controller.head(outputs)


def furthest(states: Tensor, raw: Tensor) -> Tensor:
    """Returns how far sequences of states (R, T, N) and actions (R, T, A) reach every target, (R, targets).

    NaN lies in no range, and so reaches further than any number.
    """
    every = torch.cat([states, raw], dim=2)
    ends = torch.cat([every.amax(1), (-every).amax(1)], dim=1)
    return torch.where(ends.isnan(), torch.inf, ends)
