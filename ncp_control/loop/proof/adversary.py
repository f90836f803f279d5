"""An adversary looks for a body that leaves what was proved: by chance, and by climbing along gradients.

It chooses where a body starts, the error of each sensor in each period, and to which side each neuron's state is
rounded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ncp_control.base.intervals import Array
from ncp_control.base.progress import tracked
from ncp_control.loop.proof.proving import LoopAttack, Proof
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_envs.equations import BODIES

TRAJECTORIES = 10_000_000
ROWS = 2_000_000  # periods of bodies that are followed at once
LONG_ONES = 0.02  # of the trajectories go on for so long
CLIMBERS = 8  # for each number of the body, each side and some periods
TIMES = 8  # these periods
CLIMBS = 40  # steps along the gradient
STRIDE = 0.25  # the first step, as a share of the range
ROUNDED = 2.0**-24  # half of the distance between two numbers of float32 near 1
SOLVER_STEP = 0.1  # seconds at most, and half a period
SOLVED = 1e-6  # the error of the solver, with room


class Adversary:
    """Drives bodies, and notes how far they come.

    :param agent: the agent, which computes in float32
    :param proof: what was proved of it
    :param seed: draws what is left to chance
    """

    def __init__(self, agent: LoadedPolicy, proof: Proof, seed: int) -> None:
        proof.check_is_of(agent)
        self.controller, self.body, self.proof = Controller(agent), BODIES[proof.body], proof
        self.tube = np.array(proof.tube).swapaxes(0, 1)
        _, self.periods, self.m = self.tube.shape
        self.starts = torch.tensor([self.body.low, self.body.high], dtype=torch.float64)
        self.errors = torch.tensor(self.body.errors(proof.error))
        self.random = torch.Generator().manual_seed(seed)
        self.low, self.high = (np.full(self.tube[0].shape, end) for end in (np.inf, -np.inf))
        self.followed = self.longer = 0
        self.left = ""

    def placed(self, start: Tensor) -> Tensor:
        """Returns the states (R, m) that lie at shares from 0 to 1 of the starts' sides."""
        return self.starts[0] + start * (self.starts[1] - self.starts[0])

    def drive(self, start: Tensor, errors: Tensor, roundings: Tensor | None = None) -> Tensor:
        """Returns the states (T, R, m) at the end of each period.

        :param start: from 0 to 1 where in the starts, (R, m)
        :param errors: from -1 to 1 how wrong each sensor is, (T, R, S)
        :param roundings: from -1 to 1 to which side each neuron's state is rounded, (T, R, N)
        """
        state = tuple(self.placed(start).unbind(1))
        neurons, states = self.controller.initial_state(len(start)), []
        step = min(SOLVER_STEP, self.body.period / 2)
        for k, wrong in enumerate(errors):
            seen = torch.stack([state[number] for number in self.body.seen], 1) + wrong * self.errors
            action, neurons = self.controller(seen.float(), neurons)
            if roundings is not None:
                neurons = neurons * (1 + ROUNDED * roundings[k])
            state = self.body.moved(state, tuple(action.double().unbind(1)), torch, step)
            states.append(torch.stack(state, 1))
        return torch.stack(states)

    def drawn(self, rows: int, periods: int) -> tuple[Tensor, Tensor]:
        """Draws starts, and errors that stay, come and go, or are any."""
        start = torch.rand(rows, self.m, generator=self.random, dtype=torch.float64)
        corner = torch.rand(rows, 1, generator=self.random) < 0.5
        start = torch.where(corner, start.round(), start)
        anything = 2 * torch.rand(periods, rows, len(self.errors), generator=self.random, dtype=torch.float64) - 1
        # The sign of an error turns with a probability of its own in each body, from never to every other period.
        turns = torch.rand(rows, 1, generator=self.random) * torch.randint(2, (rows, 1), generator=self.random) / 2
        turned = torch.rand(anything.shape, generator=self.random) < turns
        sign = torch.where(turned.cumsum(0) % 2 == 0, 1.0, -1.0) * anything[0].sign()
        return start, torch.where(torch.rand(rows, 1, generator=self.random) < 0.2, anything, sign.double())

    @torch.no_grad()
    def by_chance(self, rows: int, periods: int) -> tuple[Tensor, Tensor, Tensor]:
        """Follows bodies that are drawn, and returns their starts, errors and states."""
        start, errors = self.drawn(rows, periods)
        states = self.drive(start, errors)
        self.note(states)
        return start, errors, states

    @torch.no_grad()
    def ways(self, rows: int, periods: int) -> Array:
        """Returns the states (T + 1, R, m) of bodies that are drawn, at their starts and after each period."""
        start, errors = self.drawn(rows, periods)
        found: Array = torch.cat([self.placed(start)[None], self.drive(start, errors)]).numpy()
        return found

    def note(self, states: Tensor) -> None:
        """Compares states (T, R, m) at the ends of periods with what was proved."""
        count, forever = self.periods, self.proof.forever
        low, high = (end.detach().numpy() for end in (states.amin(1), states.amax(1)))
        self.low, self.high = np.minimum(self.low, low[:count]), np.maximum(self.high, high[:count])
        self.followed += states.shape[1]
        self._compare(low[:count], high[:count], self.tube[0], self.tube[1], 0)
        if len(low) > count and forever is not None:
            self.longer += states.shape[1]
            first = max(forever.entered, count)
            self._compare(low[first:], high[first:], np.array(forever.low), np.array(forever.high), first)

    def _compare(self, low: Array, high: Array, least: Array, most: Array, first: int) -> None:
        outside = ~((low >= least - SOLVED) & (high <= most + SOLVED))  # also NaN
        if outside.any() and not self.left:
            period, number = np.argwhere(outside)[0]
            self.left = f"{self.body.names[number]} in period {first + period + 1}"

    def climb(self, start: Tensor, errors: Tensor, states: Tensor) -> None:
        """Moves starts, errors and roundings so that each number goes as far as it can to each side, at some times.

        It begins with the bodies that went farthest among those with these starts and errors, and the states that
        followed from them.
        """
        times = np.unique(np.linspace(0, self.periods - 1, TIMES).round().astype(int))
        goals = [(time, number, side) for time in times for number in range(self.m) for side in (-1, 1)]
        best = [(side * states[time, :, number]).topk(CLIMBERS).indices for time, number, side in goals]
        chosen = torch.cat(best)
        place, wrong = start[chosen].clone(), errors[: self.periods, chosen].clone()
        rounded = torch.zeros(self.periods, len(chosen), self.controller.state_size)
        rows = torch.arange(len(chosen))
        time, number, side = (torch.tensor(each).repeat_interleave(CLIMBERS) for each in zip(*goals, strict=True))
        for k in range(CLIMBS):
            moved = [each.requires_grad_() for each in (place, wrong, rounded)]
            states = self.drive(*moved)
            self.note(states)
            uphill = torch.autograd.grad((side * states[time, rows, number]).sum(), moved)
            stride = STRIDE * (1 - k / CLIMBS)
            place, wrong, rounded = (
                (each.detach() + width * stride * slope.sign()).clamp(least, 1)
                for each, slope, width, least in zip(moved, uphill, (1, 2, 2), (0, -1, -1), strict=True)
            )


def attacked(
    agent: LoadedPolicy, proof: Proof, trajectories: int = TRAJECTORIES, *, seed: int = 0, progress: bool = True
) -> Proof:
    """Looks for a body that leaves the tube of a proof, or the set that none leaves; returns the proof with the result.

    :param agent: the agent that the proof is about
    :param proof: the proof, with its claims shown
    :param trajectories: how many bodies are followed
    :param seed: draws what is left to chance
    :param progress: show a progress bar
    """
    if not proof.shown:
        raise ValueError(f"nothing to attack: the claims about {proof.agent} are not shown")
    if trajectories < 1:
        raise ValueError(f"an attack needs trajectories, got {trajectories}")
    adversary, forever = Adversary(agent, proof, seed), proof.forever
    far = adversary.periods if forever is None else max(forever.entered + forever.returns, adversary.periods)
    with tracked("attacking", trajectories, unit="bodies", shown=progress) as tracker:
        while adversary.followed < trajectories and not adversary.left:
            before = adversary.followed
            goes_on = forever is not None and adversary.longer < LONG_ONES * trajectories
            periods = far if goes_on else adversary.periods
            drawn = adversary.by_chance(min(max(ROWS // periods, 1), trajectories - before), periods)
            if not before:
                adversary.climb(*drawn)
            tracker.advance(adversary.followed - before, adversary.followed - before)
    width = adversary.tube[1] - adversary.tube[0]
    reached = np.median((adversary.high - adversary.low) / width, axis=0)
    found = LoopAttack(adversary.followed, adversary.longer, tuple(reached.tolist()), adversary.left)
    return replace(proof, attack=found)
