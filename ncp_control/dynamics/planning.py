"""Planning: the cross-entropy method chooses the next action by the returns of many imagined futures.

It is the variant of Pinneri et al., "Sample-efficient cross-entropy method for real-time planning" (2020).
"""

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


# As in the paper: how many times fewer plans an iteration draws than the one before, which share of the best plans goes
# on to the next iteration and the next step, and which share of itself the mean keeps.
FEWER, KEPT, INERTIA = 1.25, 0.3, 0.1


@dataclass(frozen=True)
class PlanSettings:
    """How a planner searches."""

    horizon: int = 20
    """Number of actions in a plan, H."""

    plans: int = 120
    """Number of plans in the first iteration, K; each further iteration draws a fifth less."""

    best: int = 10
    """Number of best plans, E, from which the next iteration is drawn."""

    iterations: int = 3
    """Number of iterations of a search."""

    spread: float = 0.5
    """Standard deviation of a plan's actions in the first iteration, as a share of half the range of the actions."""

    colour: float = 1.0
    """Colour of a plan's noise, whose power falls with the frequency f as f^-colour; 0: white noise. Bodies respond
    slowly, so white noise moves them little."""

    def __post_init__(self) -> None:
        for name in ("horizon", "plans", "best", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.best > self.plans:
            raise ValueError(f"of {self.plans} plans the best {self.best} cannot be kept: lower best or raise plans")
        if not 0 < self.spread < np.inf or not 0 <= self.colour < np.inf:
            raise ValueError("spread must be positive, and colour must not be negative")


class Planner:
    """Chooses actions by the cross-entropy method.

    A search starts from the plan of the step before, shifted by one step, with mean m (H, m) and standard deviation s.
    Each iteration draws plans, and moves to the best E of them and of the best that were kept::

        a = clip(m + s n),   n = noise of power f^-colour and variance 1
        m, s = 0.1 (m, s) + 0.9 (mean, standard deviation) of the best E plans

    Three tenths of the best plans are kept for the next iteration and, shifted, for the next step, and the last
    iteration tries the mean, too. The first action of the best plan that was seen is the one to execute.

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
        """Forgets the plans, for a new episode."""
        self.mean = np.tile((self.low + self.high) / 2, (self.settings.horizon, 1))
        self.kept = np.empty((0, *self.mean.shape))

    def act(self, returns: Returns) -> Array:
        """Searches, and returns the action to execute, (m,).

        :param returns: tells the return of each plan from the present on
        """
        settings, mean = self.settings, self.mean
        std = np.full_like(mean, settings.spread) * (self.high - self.low) / 2
        few = max(1, round(KEPT * settings.best))
        kept, known = np.empty((0, *mean.shape)), np.empty(0)
        for k in range(settings.iterations):
            count = max(settings.best, round(settings.plans / FEWER**k))  # later iterations search a smaller region
            plans = np.clip(mean + std * self.noise(count), self.low, self.high)
            if k == 0:
                plans = np.concatenate([plans, self.kept])
            if k == settings.iterations - 1:
                plans = np.concatenate([plans, mean[None]])
            gained = np.asarray(returns(plans), np.float64)
            self.imagined += len(plans) * settings.horizon
            plans, gained = np.concatenate([plans, kept]), np.concatenate([gained, known])
            # Plans that a model cannot imagine are the worst.
            order = np.argsort(-np.where(np.isfinite(gained), gained, -np.inf))[: settings.best]
            best = plans[order]
            mean = INERTIA * mean + (1 - INERTIA) * best.mean(axis=0)
            std = INERTIA * std + (1 - INERTIA) * best.std(axis=0)
            kept, known = best[:few], gained[order[:few]]
        self.mean, self.kept = shifted(mean), shifted(kept)
        return np.array(kept[0, 0], np.float64)

    def noise(self, count: int) -> Array:
        """Returns the noise of some plans, (count, H, m)."""
        horizon = self.settings.horizon
        # The constant part gets the power of the slowest oscillation.
        scale = np.maximum(np.fft.rfftfreq(horizon), 1 / horizon) ** (-self.settings.colour / 2)
        times = np.full(len(scale), 2.0)  # how often a frequency stands in the whole spectrum
        times[0] = 1
        if horizon % 2 == 0:
            times[-1] = 1
        scale /= np.sqrt((times * scale**2).sum() / horizon)  # variance 1, by Parseval
        white = self.random.normal(size=(count, horizon, len(self.low)))
        return np.asarray(np.fft.irfft(np.fft.rfft(white, axis=1) * scale[:, None], n=horizon, axis=1))


def shifted(plans: Array) -> Array:
    """Returns plans (..., H, m) one step later: without the first action, and with the last one twice."""
    # The last action stands for what the plan did not see yet.
    return np.concatenate([plans[..., 1:, :], plans[..., -1:, :]], axis=-2)


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
