"""Do agents learn small tasks with the settings that a newcomer gets, and how do the cells compare?

Every policy has the same algorithm and learning rate; only the cell differs, and with it the wiring, as the LSTM is
always fully connected. `identity` asks an agent to repeat one of four numbers as soon as it sees it: the score
is the number of right answers of 100, after 1,200 steps. `cartpole` hides the velocities of the cart-pole: the score
is the mean return, 500 at best, after 50,000 steps. Each policy trains once for every seed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import IdentityEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

import ncp_envs  # noqa: F401 - registers the environments
from ncp_control.rl import RecurrentPPO

CELLS = ("cfc", "ltc", "lstm")  # the first is the default


@dataclass
class Arguments:
    """Train a policy with each cell on every task, once for each seed.

    Example: python scripts/benchmark_defaults.py --tasks identity --seeds 0 1 2
    """

    tasks: tuple[str, ...] = ("identity", "cartpole")
    """The tasks: identity takes seconds for a seed, cartpole minutes."""

    cells: tuple[str, ...] = CELLS
    """The cells; all other settings of the policies are the default ones."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds."""


def identity(seed: int, policy_kwargs: dict[str, Any]) -> float:
    """Returns the number of right answers of 100, on average over 20 episodes."""
    env = make_vec_env(lambda: IdentityEnv(4), 1, seed=seed)
    given: dict[str, Any] = {"gamma": 0.4, "learning_rate": 2e-3, "n_epochs": 4, "n_steps": 256, "seed": seed}
    model = RecurrentPPO("NCPPolicy", env, policy_kwargs=policy_kwargs, device="cpu", **given).learn(1200)
    return float(evaluate_policy(model, env, 20)[0])


def cartpole(seed: int, policy_kwargs: dict[str, Any]) -> float:
    """Returns the mean return over 20 episodes."""
    env = VecNormalize(make_vec_env(lambda: gym.make("ncp/CartPoleNoVel-v0"), 8, seed=seed))
    given: dict[str, Any] = {"n_steps": 128, "batch_size": 256, "learning_rate": 7e-4, "gae_lambda": 0.98, "seed": seed}
    around: dict[str, Any] = {"net_arch": {"pi": [], "vf": [64]}, "ortho_init": False}
    model = RecurrentPPO(
        "NCPPolicy", env, max_grad_norm=1.0, policy_kwargs={**around, **policy_kwargs}, device="cpu", **given
    ).learn(50_000)
    env.training = env.norm_reward = False
    return float(evaluate_policy(model, env, 20)[0])


TASKS: dict[str, Callable[[int, dict[str, Any]], float]] = {"identity": identity, "cartpole": cartpole}


def main() -> None:
    """Trains with all cells, and prints the table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    table = Table("task", "cell", "mean", "spread", "lowest", "scores", "seconds a seed")
    for task in arguments.tasks:
        for cell in arguments.cells:
            start = time.perf_counter()
            scores = [TASKS[task](seed, {"cell": cell}) for seed in arguments.seeds]
            seconds = (time.perf_counter() - start) / len(scores)
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            table.add_row(
                task,
                cell,
                f"{statistics.mean(scores):.1f}",
                f"{spread:.1f}",
                f"{min(scores):.1f}",
                " ".join(f"{score:.0f}" for score in scores),
                f"{seconds:.0f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
