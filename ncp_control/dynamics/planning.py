"""Planning: the cross-entropy method chooses the next action by the returns of many imagined futures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

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
    :ivar imagined: number of steps that were imagined so far
    """

    def __init__(self, low: Array, high: Array, settings: PlanSettings | None = None, seed: int = 0) -> None:
        self.low, self.high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        self.settings = settings or PlanSettings()
        self.random, self.imagined = np.random.default_rng(seed), 0
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
            self.imagined += len(plans) * settings.horizon
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


class Futures(Protocol):
    """What tells a planner the returns of its plans; it follows one episode."""

    def reset(self) -> None:
        """Begins an episode."""

    def after(self, observation: Array) -> Returns:
        """Returns a function that tells the return of plans (K, H, m) that begin at an observation (n,)."""

    def done(self, observation: Array, action: Array) -> None:
        """Reads an observation and the action that is executed after it."""


class PlannedEpisode:
    """One episode in an environment, in which a planner chooses the actions.

    :param env: the environment
    :param planner: chooses the actions
    :param futures: tells it the returns of its plans
    :param seed: the seed of the environment's reset
    :ivar steps: what was seen, done and earned in each step
    :ivar over: whether the environment has ended the episode
    """

    def __init__(self, env: gym.Env[Any, Any], planner: Planner, futures: Futures, seed: int) -> None:
        self.env, self.planner, self.futures, self.seed = env, planner, futures, seed
        self.observation, _ = env.reset(seed=seed)
        planner.reset()
        futures.reset()
        self.steps: list[tuple[Array, Array, float]] = []
        self.terminated = self.over = False

    @property
    def rewards(self) -> Array:
        """The rewards so far, (T,)."""
        return np.array([reward for _, _, reward in self.steps])

    def step(self) -> None:
        """Plans, and executes the first action of the best plan."""
        action = self.planner.act(self.futures.after(self.observation)).astype(self.env.action_space.dtype)
        after, reward, self.terminated, truncated, _ = self.env.step(action)
        self.futures.done(self.observation, action)
        self.steps.append((self.observation, action, float(reward)))
        self.observation, self.over = after, self.terminated or truncated
