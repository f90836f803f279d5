"""A gait without senses: an oscillator for each joint moves the half-cheetah, and nothing is measured.

    python scripts/open_loop_gait.py --seed 1
    ncp-control evaluate scripts.open_loop_gait:gait --env HalfCheetah-v5 --grid

The first command searches for a gait (CMA-ES, half an hour of one core) and prints its 20 numbers; those of `GAIT` were
found so. The second one runs it in every disturbance: noise and lost readings mean nothing to it. All joints share a
clock with two speeds, one for each half of a period, and each has an amplitude, a phase and an offset of its own. The
idea of such a baseline is from Raffin et al., "An Open-Loop Baseline for Reinforcement Learning Locomotion Tasks"
(2024), whose oscillators set joint angles, which a controller then measures. Here they are the torques themselves.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_control.base.progress import tracked
from ncp_envs import MujocoVectorEnv, without_mass_warning

Array = NDArray[np.float64]
JOINTS, SECONDS = 6, 0.05  # SECONDS: a control step
SIZE = 3 * JOINTS + 2
FIRST_SPEED = 3.5  # periods a second
SHORT, SHORT_GENERATIONS = 300, 30  # steps of an episode in the first generations
GAIT = (
    0.9230, 1.1381, -0.1378, 0.6500, 0.6271, 0.9334, 2.1954, 2.8974, 4.4312, 5.3150,
    -0.5849, 4.1256, -0.5046, -0.6213, -0.5580, -0.3145, -0.4371, 0.1230, 1.2923, 1.2979,
)  # fmt: skip


class Oscillators:
    """An agent with a clock and no senses.

    :param numbers: amplitudes, phases and offsets of the joints, and the logarithms of both speeds in periods a second
    """

    def __init__(self, numbers: Any) -> None:
        numbers = np.asarray(numbers, dtype=np.float64)
        self.amplitudes, self.phases, self.offsets = np.split(numbers[..., : 3 * JOINTS], 3, axis=-1)
        self.speeds = 2 * np.pi * SECONDS * np.exp(numbers[..., 3 * JOINTS :])

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """Returns the torques of every episode, (B, 6), and its oscillators' angles as the next state."""
        count = len(observation)
        begins = np.ones(count, dtype=bool) if state is None else np.asarray(episode_start, dtype=bool)
        angles = np.where(begins[:, None], self.phases, 0.0 if state is None else state)
        waves = np.sin(angles)
        torques = np.clip(self.offsets + self.amplitudes * waves, -1, 1).astype(np.float32)
        return torques, angles + np.where(waves > 0, self.speeds[..., :1], self.speeds[..., 1:])


gait = Oscillators(GAIT)


def returns_of(numbers: Array, envs: MujocoVectorEnv, seed: int, steps: int) -> Array:
    """Returns the mean reward a step of candidates (C, 20), each in as many episodes as it has environments.

    The episodes of all candidates begin in the same poses.
    """
    each = envs.num_envs // len(numbers)
    agent = Oscillators(np.repeat(numbers, each, axis=0))
    observations, _ = envs.reset(seed=[seed + k % each for k in range(envs.num_envs)])
    total, state, going = np.zeros(envs.num_envs), None, np.zeros(envs.num_envs, dtype=bool)
    for _ in range(steps):
        actions, state = agent.predict(observations, state, going)
        observations, rewards, *_ = envs.step(actions)
        total += rewards
    return total.reshape(len(numbers), each).mean(axis=1) / steps


class Search:
    """CMA-ES, after Hansen's tutorial (arXiv 1604.00772): a normal distribution that follows the better half.

    :param mean: where it begins
    :param spread: the standard deviation of each number
    :param population: candidates in a generation
    :param seed: everything random follows from it
    """

    def __init__(self, mean: Array, spread: Array, population: int, seed: int) -> None:
        n, kept = len(mean), population // 2
        self.mean, self.step, self.covariance = mean, 0.5, np.diag(spread**2)
        self.random, self.population, self.generation = np.random.default_rng(seed), population, 0
        weights = np.log(kept + 0.5) - np.log(np.arange(1, kept + 1))
        self.weights = weights / weights.sum()
        self.mass = 1 / np.square(self.weights).sum()
        self.by_step = (self.mass + 2) / (n + self.mass + 5)
        self.by_path = (4 + self.mass / n) / (n + 4 + 2 * self.mass / n)
        self.by_one = 2 / ((n + 1.3) ** 2 + self.mass)
        self.by_many = min(1 - self.by_one, 2 * (self.mass - 2 + 1 / self.mass) / ((n + 2) ** 2 + self.mass))
        self.damping = 1 + self.by_step + 2 * max(0.0, np.sqrt((self.mass - 1) / (n + 1)) - 1)
        self.length = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # of a standard normal vector
        self.path, self.step_path = np.zeros(n), np.zeros(n)

    def ask(self) -> Array:
        """Returns the candidates of a generation, (C, n)."""
        sizes, self.axes = np.linalg.eigh(self.covariance)
        self.sizes = np.sqrt(np.maximum(sizes, 1e-12))
        self.moves = self.random.standard_normal((self.population, len(self.mean))) * self.sizes @ self.axes.T
        return self.mean + self.step * self.moves

    def tell(self, values: Array) -> None:
        """Moves the distribution to the candidates with the highest values."""
        self.generation += 1
        better = self.moves[np.argsort(-values)[: len(self.weights)]]
        move = self.weights @ better
        self.mean = self.mean + self.step * move
        whitened = self.axes @ ((self.axes.T @ move) / self.sizes)
        self.step_path *= 1 - self.by_step
        self.step_path += np.sqrt(self.by_step * (2 - self.by_step) * self.mass) * whitened
        size = np.linalg.norm(self.step_path)
        expected = np.sqrt(1 - (1 - self.by_step) ** (2 * self.generation)) * self.length
        is_straight = size / expected < 1.4 + 2 / (len(self.mean) + 1)
        self.path *= 1 - self.by_path
        self.path += is_straight * np.sqrt(self.by_path * (2 - self.by_path) * self.mass) * move
        self.covariance *= 1 - self.by_one - self.by_many
        self.covariance += self.by_one * np.outer(self.path, self.path)
        self.covariance += self.by_many * (better.T * self.weights) @ better
        self.step *= float(np.exp(self.by_step / self.damping * (size / self.length - 1)))


def search(seed: int, generations: int, population: int, episodes: int, steps: int) -> Array:
    """Searches for a gait."""

    def make() -> gym.Env[Any, Any]:
        return gym.make("HalfCheetah-v5", disable_env_checker=True)

    random = np.random.default_rng(seed)
    mean = np.concatenate([np.full(JOINTS, 0.7), random.uniform(0, 2 * np.pi, JOINTS), np.zeros(JOINTS)])
    spread = np.repeat([0.5, 2.0, 0.3, 0.3], [JOINTS, JOINTS, JOINTS, 2])
    found = Search(np.append(mean, np.full(2, np.log(FIRST_SPEED))), spread, population, seed)
    with without_mass_warning():
        envs = MujocoVectorEnv([make] * (population * episodes))
    with tracked("searching", generations, unit="generations") as tracker:
        for generation in range(generations):
            length = min(steps, SHORT) if generation < SHORT_GENERATIONS else steps
            values = returns_of(found.ask(), envs, int(random.integers(2**31)), length)
            found.tell(values)
            tracker.advance(1, 1, note=f"reward a step: best {values.max():.2f}, median {np.median(values):.2f}")
    envs.close()
    return found.mean


def main(words: list[str] | None = None) -> None:
    """Searches for a gait and prints its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="everything random follows from it")
    parser.add_argument("--generations", type=int, default=200)
    parser.add_argument("--population", type=int, default=32, help="gaits in a generation")
    parser.add_argument("--episodes", type=int, default=4, help="episodes of each gait")
    parser.add_argument("--steps", type=int, default=1000, help="steps of an episode")
    given = parser.parse_args(words)
    numbers = search(given.seed, given.generations, given.population, given.episodes, given.steps)
    print("GAIT = (" + ", ".join(f"{number:.4f}" for number in numbers) + ")")


if __name__ == "__main__":
    main()
