"""Planning: the cross-entropy method chooses the next action by the returns of many imagined futures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.environment import Reward, SimulatedEpisodes
from ncp_control.dynamics.simulator import Simulator

Array = NDArray[np.float64]
# Takes plans, each a sequence of actions, (K, H, m), and returns their returns, (K,).
Returns = Callable[[Array], Array]


@dataclass(frozen=True)
class PlanSettings:
    """How a planner searches; a search imagines about `iterations * plans * horizon` steps."""

    horizon: int = 20
    """Number of actions in a plan, H."""

    plans: int = 100
    """Number of plans in an iteration, K."""

    best: int = 10
    """Number of best plans from which the next iteration goes on, E."""

    iterations: int = 3
    """Number of iterations of a search."""

    spread: float = 0.5
    """Standard deviation of a plan's actions in the first iteration, as a share of half the range of the actions."""

    smooth: float = 0.7
    """Correlation of an action's noise with that of the next action, from 0 up to 1: bodies answer slowly, so plans
    that tremble go nowhere."""

    def __post_init__(self) -> None:
        for name in ("horizon", "plans", "best", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.best > self.plans:
            raise ValueError(f"of {self.plans} plans the best {self.best} cannot be kept: lower best or raise plans")
        if not self.spread > 0 or not 0 <= self.smooth < 1:
            raise ValueError("spread must be positive, and smooth must be from 0 up to 1")


class Planner:
    """Chooses actions by the cross-entropy method.

    A search starts from the plan of the step before, shifted by one step, with mean m (H, m) and standard deviation s.
    Each iteration draws K plans, and moves to the best E of them and of the last iteration's best::

        a = clip(m + s n),   n_(h+1) = c n_h + sqrt(1 - c^2) N(0, 1)
        m, s = mean and standard deviation of the best E plans

    The first action of the best plan that was seen is the one to execute.

    :param low: the least value of each action, (m,)
    :param high: the greatest value of each action, (m,)
    :param settings: how it searches
    :param seed: everything random follows from it
    """

    def __init__(self, low: Array, high: Array, settings: PlanSettings | None = None, seed: int = 0) -> None:
        self.low, self.high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        self.settings = settings or PlanSettings()
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        """Forgets the plan, for a new episode."""
        self.plan = np.tile((self.low + self.high) / 2, (self.settings.horizon, 1))

    def act(self, returns: Returns) -> Array:
        """Searches, and returns the action to execute, (m,).

        :param returns: tells the return of each plan from the present on
        """
        settings = self.settings
        mean, std = self.plan, np.full_like(self.plan, settings.spread) * (self.high - self.low) / 2
        kept, best, most = np.empty((0, *mean.shape)), mean, -np.inf
        for _ in range(settings.iterations):
            drawn = np.clip(mean + std * self.noise(), self.low, self.high)
            plans = np.concatenate([drawn, mean[None], kept])
            gained = np.asarray(returns(plans), np.float64)
            order = np.argsort(-np.where(np.isfinite(gained), gained, -np.inf))[: settings.best]
            kept = plans[order]
            mean, std = kept.mean(axis=0), kept.std(axis=0)
            if gained[order[0]] > most:
                best, most = kept[0], gained[order[0]]
        self.plan = np.concatenate([mean[1:], mean[-1:]])
        return np.array(best[0], np.float64)

    def noise(self) -> Array:
        """Returns the noise of an iteration's plans, (K, H, m)."""
        settings, size = self.settings, len(self.low)
        fresh = self.random.normal(size=(settings.plans, settings.horizon, size))
        for k in range(1, settings.horizon):
            fresh[:, k] = settings.smooth * fresh[:, k - 1] + np.sqrt(1 - settings.smooth**2) * fresh[:, k]
        return fresh


class ImaginedFutures:
    """The futures that a model, or every member of an ensemble, imagines from what it has seen of an episode.

    Example::

        futures, planner = ImaginedFutures(model), Planner(*model.action_range)
        while not over:
            action = planner.act(futures.after(observation))
            futures.done(observation, action)
            observation, reward, terminated, truncated, _ = env.step(action)

    :param model: a model that reads actions
    :param reward: the reward of a step, as for `DynamicsEnv`
    :param doubt: how many standard deviations over an ensemble's members are taken off the mean of their returns
    """

    def __init__(self, model: Simulator, reward: Reward | None = None, doubt: float = 0.0) -> None:
        episodes = SimulatedEpisodes(model, reward, None, 1.0, 1)  # which says what it cannot simulate
        self.members: list[Simulator] = list(model.models) if isinstance(model, Ensemble) else [model]
        self.reward, self.doubt = episodes.reward, doubt
        self.states: list[Tensor | None] = [None] * len(self.members)

    def reset(self) -> None:
        """Forgets what was seen, for a new episode."""
        self.states = [None] * len(self.members)

    @torch.no_grad()
    def done(self, observation: Array, action: Array) -> None:
        """Lets the members read an observation and the action that was executed after it."""
        for k, member in enumerate(self.members):
            seen, acted = (row(member, values[None]) for values in (observation, action))
            _, self.states[k] = member(seen, acted, self.states[k])

    def after(self, observation: Array) -> Returns:
        """Returns a function that tells the return of plans (K, H, m) that begin at an observation (n,)."""

        def returns(plans: Array) -> Array:
            each = np.stack([self._of_member(k, observation, plans) for k in range(len(self.members))])
            return np.asarray(each.mean(axis=0) - self.doubt * each.std(axis=0), np.float64)

        return returns

    @torch.no_grad()
    def _of_member(self, k: int, observation: Array, plans: Array) -> Array:
        """Returns the returns (K,) of plans in one member's imagination."""
        member, state, count = self.members[k], self.states[k], len(plans)
        state = None if state is None else state.expand(count, -1).contiguous()
        seen = row(member, np.repeat(observation[None], count, axis=0))
        actions = torch.as_tensor(plans, dtype=seen.dtype, device=seen.device)
        last, state = member(seen, actions[:, :1], state)
        course = [seen, last]
        if actions.shape[1] > 1:
            course.append(member.run_free(last, state, actions.shape[1] - 1, actions[:, 1:])[0])
        found = torch.cat(course, dim=1).double().cpu().numpy()
        gained = np.zeros(count)
        for h in range(plans.shape[1]):
            gained += self.reward(found[:, h], plans[:, h], found[:, h + 1])
        return gained


def row(model: Simulator, values: Array) -> Tensor:
    """Returns values (B, n) as a tensor of one step, (B, 1, n), of the model's type and on its device."""
    return torch.as_tensor(values, dtype=model.mean.dtype, device=model.mean.device)[:, None]
