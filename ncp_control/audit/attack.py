"""The search for what breaks a certificate: the widest values that an agent reaches inside the certified box."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncp_control.audit.cells.known import Elapsed
from ncp_control.audit.intervals import Array, Interval
from ncp_control.rl.controller import Controller
from ncp_control.support.progress import tracked

STEPS = 6  # of a sequence; a search goes on from where a sequence ends
ROWS = 512  # of a batch of random sequences
COPIES = 4  # how many sequences climb for each target
EXCHANGE = 10  # after how many changes the best sequence of a target takes the place of others
RANDOM_SHARE = 0.2  # of the inputs that are drawn at random before the climbing begins


@dataclass(frozen=True, eq=False)
class Found:
    """What an attack reached.

    :param states: the least and the greatest value of every number of the state
    :param time_constants: the same of every neuron's time constant, where it is known
    :param raw: the same of the actions before clipping
    :param moved: how far an error of one observation moved each action in the same step, (A,)
    :param kept: for how many steps two pasts kept some action apart by more than `epsilon` of its range
    :param inputs: how many observations were tried
    :param seconds: how long it took
    :param lost: whether an action was no number
    """

    states: Interval
    time_constants: Interval
    raw: Interval
    moved: Array
    kept: int
    inputs: int
    seconds: float
    lost: bool


class Attacker:
    """Draws observations from a box, and climbs from the best of them towards wider values.

    Every number of the state and every action has two targets: its least and its greatest value. A target's sequences
    are changed by a step along the sign of the gradient, by new values in some places, and by small noise; a change
    stays if it reaches further.

    :param controller: the agent in float32, with the scan that it acts with
    :param box: the observations to draw from, (n,), finite
    :param elapsed: the times between two observations
    :param seed: seed of the search
    """

    def __init__(self, controller: Controller, box: Interval, elapsed: Elapsed, seed: int = 0) -> None:
        self.controller, self.elapsed = controller, elapsed
        self.low, self.high = (torch.as_tensor(end, dtype=torch.float32) for end in box)
        self.size, self.actions = controller.state_size, len(controller.actions)
        self.random = torch.Generator().manual_seed(seed)
        self.inputs = 0
        self.lost = False
        self.widest = torch.full((2 * (self.size + self.actions),), -torch.inf)
        self.best = torch.zeros(len(self.widest), STEPS, len(self.low))
        self.times = torch.ones(len(self.widest), STEPS)
        self.pool: list[Tensor] = []
        self.turn = 0
        self.time_constants = torch.stack(
            [torch.full((0 if controller.rnn is None else controller.rnn.cell.units,), end) for end in (torch.inf, 0.0)]
        )

    def draw(self, rows: int) -> tuple[Tensor, Tensor]:
        """Returns random observations (rows, STEPS, n), many of them corners of the box or held, and elapsed times."""
        shape = rows, STEPS, len(self.low)
        share = torch.rand(shape, generator=self.random)
        share = torch.where(self._chance(rows, 0.6), share.round(), share)
        share = torch.where(self._chance(rows, 0.5), share[:, :1], share)
        times = torch.rand(rows, STEPS, generator=self.random)
        times = torch.where(self._chance(rows, 0.7)[..., 0], times.round(), times)
        low, high = self.elapsed
        return self.low + share * (self.high - self.low), low + times * (high - low)

    def _chance(self, rows: int, share: float) -> Tensor:
        return torch.rand(rows, 1, 1, generator=self.random) < share

    def run(self, observations: Tensor, times: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the states (R, T, N) and the actions before clipping (R, T, A) along sequences of observations."""
        controller, (rows, steps) = self.controller, observations.shape[:2]
        self.inputs += rows * steps
        features = controller.features(observations.flatten(0, 1), times.flatten()).unflatten(0, (rows, steps))
        states, outputs = features.new_zeros(rows, steps, 0), features
        if controller.rnn is not None:
            start = controller.initial_state(rows) if state is None else state
            outputs, _, states = controller.rnn(features, start, times, states=True)
        raw = controller.head(outputs)
        self.lost = self.lost or bool(raw.isnan().any())
        return states, raw

    def explore(self, inputs: int) -> None:
        """Tries random sequences until that many observations were seen, and keeps the widest of each target."""
        while self.inputs < inputs:
            self.note(*self.draw(ROWS))

    def note(self, observations: Tensor, times: Tensor) -> None:
        """Keeps the sequences that reach further than those before."""
        with torch.no_grad():
            states, raw = self.run(observations, times)
            reached = furthest(states, raw)
            self._note_time_constants(observations, times, states)
        value, row = reached.max(0)
        better = value > self.widest
        self.widest[better] = value[better]
        kept = row[better]
        if observations.shape[1] == STEPS:
            self.best[better], self.times[better] = observations[kept], times[kept]

    def _note_time_constants(self, observations: Tensor, times: Tensor, states: Tensor) -> None:
        """Looks at the time constants where each sequence ends."""
        rnn = self.controller.rnn
        if rnn is None or states.shape[1] < 2:
            return
        features = self.controller.features(observations[:, -1], times[:, -1])
        found = rnn.cell.time_constants(features, states[:, -2])
        known = ~found.isnan().any(0)
        low, high = found.amin(0), found.amax(0)
        self.time_constants[0, known] = torch.minimum(self.time_constants[0], low)[known]
        self.time_constants[1, known] = torch.maximum(self.time_constants[1], high)[known]

    def climb(self, inputs: int) -> None:
        """Changes the best sequences of all targets until that many observations were seen."""
        if not self.pool:
            x, t = (one.repeat_interleave(COPIES, 0) for one in (self.best, self.times))
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
        """Gives every target the sequence that reaches furthest for it, whichever target's it was, for half of its own.

        All sequences then start where they end if that reaches further: slow neurons need more than a few steps.
        """
        first = self._all(x, t, start).argmax(0)
        for one in (x, t, start):
            part = one.view(len(first), COPIES, *one.shape[1:])
            part[:, COPIES // 2 :] = one[first][:, None]
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
        rows, span, kind = len(x), self.high - self.low, self.turn % 4
        if kind == 0:
            step = torch.rand(rows, 1, 1, generator=self.random) ** 3 * span
            return (x + step * self._gradient(x, t, start).sign()).clamp(self.low, self.high), t
        chosen = torch.rand(x.shape, generator=self.random) < 0.3 * torch.rand(rows, 1, 1, generator=self.random)
        fresh, times = self.draw(rows)
        if kind == 1:
            noise = torch.randn(x.shape, generator=self.random)
            fresh = (x + 0.1 * span * noise).clamp(self.low, self.high)
        elif kind == 2:
            chosen = chosen[:, :1].expand_as(chosen)
        return torch.where(chosen, fresh, x), torch.where(chosen[..., 0], times, t)

    def _gradient(self, x: Tensor, t: Tensor, start: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        signs = torch.ones(len(self.widest)).index_fill(0, torch.arange(len(self.widest) // 2, len(self.widest)), -1.0)
        which = self._targets(len(x))
        every = torch.cat(self.run(x, t, start), dim=2)
        own = every[torch.arange(len(x)), :, which % (len(self.widest) // 2)] * signs[which][:, None]
        return torch.autograd.grad(own.amax(1).sum(), x)[0]

    def moved(self, errors: Array, rounds: int = 20) -> Array:
        """Returns how far errors of one observation move each action in the same step at most, (A,), as found.

        :param errors: the greatest error of each observation, (n,)
        """
        error, most = torch.as_tensor(errors, dtype=torch.float32), torch.zeros(self.actions)
        for _ in range(rounds):
            observations, times = self.draw(ROWS)
            with torch.no_grad():
                states, _ = self.run(observations[:, :-1], times[:, :-1])
            here = observations[:, -1:].clone().requires_grad_()
            last = times[:, -1:]
            plain = self.run(here, last, states[:, -1])[1][:, 0]
            for k in range(self.actions):
                slope = torch.autograd.grad(plain[:, k].sum(), here, retain_graph=True)[0]
                ends = []
                for sign in (1, -1):
                    moved = (here + sign * error * slope.sign()).clamp(self.low, self.high)
                    with torch.no_grad():
                        ends.append(self.clipped(self.run(moved, last, states[:, -1])[1][:, 0]))
                middle = self.clipped(plain.detach())
                apart = torch.stack([(end - middle).abs() for end in ends]).amax((0, 1))
                most = torch.maximum(most, apart)
        return np.asarray(most.double().numpy())

    def clipped(self, raw: Tensor) -> Tensor:
        """Returns the actions that the environment gets; the values of choices as they are."""
        return raw if self.controller.chooses else self.controller.limited(raw)

    def kept(self, epsilon: float, ranges: Array, most: int = 200) -> int:
        """Returns for how many steps two pasts keep some action apart by more than a share of its range."""
        if not self.size:
            return 0
        with torch.no_grad():
            one, other = (self.run(*self.draw(ROWS))[0][:, -1] for _ in range(2))
            enough, last = torch.as_tensor(epsilon * ranges, dtype=torch.float32), 0
            observations, times = self.draw(ROWS)
            for step in range(most):
                k = step % STEPS
                if k == 0 and step:
                    fresh, times = self.draw(ROWS)
                    observations = torch.where(self._chance(ROWS, 0.5), fresh, observations[:, -1:])
                a, b = (self.run(observations[:, k : k + 1], times[:, k : k + 1], state) for state in (one, other))
                one, other = a[0][:, 0], b[0][:, 0]
                if ((self.clipped(a[1][:, 0]) - self.clipped(b[1][:, 0])).abs() > enough).any():
                    last = step + 1
        return last

    def found(self, errors: Array, epsilon: float, ranges: Array, start: float) -> Found:
        """Returns everything that was reached; the attack began at `start`."""
        half = len(self.widest) // 2
        high, low = self.widest[:half].double().numpy(), -self.widest[half:].double().numpy()
        times = self.time_constants.double().numpy()
        moved, kept = self.moved(errors), self.kept(epsilon, ranges)
        begun = Interval(np.minimum(low[: self.size], 0), np.maximum(high[: self.size], 0))
        raw = Interval(low[self.size :], high[self.size :])
        seconds = time.perf_counter() - start
        return Found(begun, Interval(times[0], times[1]), raw, moved, kept, self.inputs, seconds, self.lost)


def furthest(states: Tensor, raw: Tensor) -> Tensor:
    """Returns how far sequences of states (R, T, N) and actions (R, T, A) reach every target, (R, targets)."""
    every = torch.cat([states, raw], dim=2)
    return torch.cat([every.amax(1), (-every).amax(1)], dim=1)


def attack(
    controller: Controller,
    box: Interval,
    elapsed: Elapsed,
    inputs: int,
    *,
    errors: Array,
    epsilon: float,
    ranges: Array,
    seed: int = 0,
    recorded: Any = None,
    progress: bool = True,
) -> Found:
    """Searches a box for the widest values.

    :param controller: the agent
    :param box: the observations to draw from, (n,), finite
    :param elapsed: the times between two observations
    :param inputs: how many observations to try
    :param errors: the errors of the observations, (n,)
    :param epsilon: which share of a range counts as forgotten
    :param ranges: the actions' ranges, (A,)
    :param seed: seed of the search
    :param recorded: further observations to try in their order, (T, n), inside the box; or None
    :param progress: show a progress bar
    """
    start = time.perf_counter()
    attacker = Attacker(controller, box, elapsed, seed)
    if recorded is not None and len(recorded):
        seen = torch.as_tensor(np.asarray(recorded), dtype=torch.float32)[None]
        attacker.note(seen, torch.full(seen.shape[:2], elapsed.low))
    with tracked("attacking", inputs, unit="inputs", shown=progress) as tracker:
        done, goals = 0, [*np.linspace(0, RANDOM_SHARE, 3)[1:], *np.linspace(RANDOM_SHARE, 1, 17)[1:]]
        for goal in goals:
            (attacker.explore if goal <= RANDOM_SHARE else attacker.climb)(int(goal * inputs))
            tracker.advance(attacker.inputs - done, attacker.inputs - done, "")
            done = attacker.inputs
    return attacker.found(errors, epsilon, ranges, start)
