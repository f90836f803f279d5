"""Measure after how many seconds of training an agent reaches a return, beside Stable-Baselines3 and sb3-contrib.

Every contestant trains on ncp/HalfCheetahNoVel-v0 with one thread, one after another, once for each seed. After every
`--every` steps the clock stands still, and the deterministic policy acts in `--episodes` episodes. A training ends when
their mean return is as high as asked for, or after `--limit` seconds.

The first three train with the same settings but for the rate, the best of two to four for each. The stock ones have
all defaults of Stable-Baselines3 and sb3-contrib, in one environment whose observations and rewards are normalised.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from benchmark_off_policy import make_envs
from rich.console import Console
from rich.table import Table
from sb3_contrib import RecurrentPPO as StockRecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, sync_envs_normalization

from ncp_control.base.files import write_atomically
from ncp_control.base.plain_yaml import read_changes
from ncp_control.base.progress import tracked
from ncp_control.rl import load_recipe
from ncp_control.rl.recipes.building import built

ENV = "ncp/HalfCheetahNoVel-v0"

QUICK: dict[str, Any] = {"n_steps": 64, "n_epochs": 5}
PLAIN_POLICY: dict[str, Any] = {
    "algo": "PPO", "policy": "MlpPolicy", "policy_kwargs": {"log_std_init": -1.0}, "learning_rate": "lin_1e-3",
}  # fmt: skip
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "circuit, signed NeuralLTC": ("halfcheetah-positions", QUICK | {"learning_rate": "lin_7e-3"}),
    "LSTM, 15 units": ("halfcheetah-positions-lstm", QUICK | {"learning_rate": "lin_5e-3"}),
    "MLP 64 x 64": ("halfcheetah-positions", QUICK | PLAIN_POLICY),
}
STOCK = {"stock PPO, MLP": (PPO, "MlpPolicy"), "stock RecurrentPPO, LSTM": (StockRecurrentPPO, "MlpLstmPolicy")}
EVALUATION_SEED, EVALUATION_ENVS = 10_000, 10


@dataclass
class Arguments:
    """Time trainings until they reach a return.

    Example: python scripts/time_to_return.py --contestants "circuit, signed NeuralLTC" --seeds 0
    """

    contestants: tuple[str, ...] = (*RECIPES, *STOCK)
    """What trains."""

    goal: float = 3000.0
    """The return."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """The seeds of the trainings."""

    limit: float = 300.0
    """Seconds after which a training ends."""

    every: int = 10_000
    """Steps between evaluations."""

    episodes: int = 10
    """Episodes of an evaluation."""

    set: tuple[str, ...] = ()
    """Changes of the recipes, such as `n_epochs=3 n_steps=128`."""

    json: Path | None = None
    """Also write every number to this file."""


class Race(BaseCallback):
    """Evaluates the policy now and then, and ends the training when it reaches a return or runs out of time.

    :ivar curve: the steps, the seconds of training and the mean return of every evaluation
    """

    def __init__(self, arguments: Arguments, envs: VecEnv) -> None:
        super().__init__()
        self.arguments, self.envs = arguments, envs
        self.curve: list[tuple[int, float, float]] = []
        self._evaluating = 0.0

    def _on_training_start(self) -> None:
        self._start = time.perf_counter()

    def _on_step(self) -> bool:
        return not self.curve or (not self.reached() and self.curve[-1][1] < self.arguments.limit)

    def _on_rollout_start(self) -> None:
        """Evaluates after the update, so that the return is that of what was trained, and without random numbers."""
        last = self.curve[-1][0] if self.curve else 0
        if self.num_timesteps // self.arguments.every == last // self.arguments.every:
            return
        before = time.perf_counter()
        sync_envs_normalization(self.training_env, self.envs)
        self.envs.seed(EVALUATION_SEED)
        found, _ = evaluate_policy(self.model, self.envs, self.arguments.episodes, warn=False)
        self.curve.append((self.num_timesteps, before - self._start - self._evaluating, float(np.mean(found))))
        self._evaluating += time.perf_counter() - before

    def reached(self) -> bool:
        """Whether the last evaluation was good enough."""
        return bool(self.curve) and self.curve[-1][2] >= self.arguments.goal


@contextmanager
def contestant(name: str, changes: dict[str, Any], seed: int) -> Iterator[tuple[Any, VecEnv, int]]:
    """Makes an untrained model, the environments of its evaluations, and the steps after which its rate is zero."""
    if name in RECIPES:
        source, own = RECIPES[name]
        recipe = load_recipe(source, own | changes)
        with built(recipe, seed, evaluation_envs=EVALUATION_ENVS) as made:
            yield made.model, made.evaluation_envs[""], recipe.n_timesteps
        return
    kind, policy = STOCK[name]
    training = VecNormalize(make_envs(ENV, 1))
    evaluation = VecNormalize(make_envs(ENV, EVALUATION_ENVS), training=False, norm_reward=False)
    with closing(training), closing(evaluation):
        yield kind(policy, training, seed=seed, device="cpu"), evaluation, 10**9


def race(name: str, changes: dict[str, Any], seed: int, arguments: Arguments) -> dict[str, Any]:
    """Trains a contestant from a seed, and returns its evaluations."""
    with contestant(name, changes, seed) as (model, envs, steps):
        callback = Race(arguments, envs)
        model.learn(steps, callback=callback)
    return {"contestant": name, "seed": seed, "reached": callback.reached(), "curve": callback.curve}


def main() -> None:
    """Lets everyone train, and prints the table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    changes, rows, console = read_changes(list(arguments.set)), [], Console()
    table = Table("contestant", f"seconds to {arguments.goal:,.0f}", "median", "steps", "best return")
    with tracked("training", len(arguments.contestants) * len(arguments.seeds)) as tracker:
        for name in arguments.contestants:
            own = []
            for seed in arguments.seeds:
                own.append(race(name, changes, seed, arguments))
                rows.append(own[-1])
                tracker.advance(1, note=f"{name}, seed {seed}: {own[-1]['curve'][-1][1]:.0f} s")
                if arguments.json is not None:
                    write_atomically(arguments.json, json.dumps(rows, indent=2).encode())
            times = [row["curve"][-1][1] if row["reached"] else float("inf") for row in own]
            steps = [f"{row['curve'][-1][0] // 1000:,} k" for row in own]
            best = [f"{max(each[2] for each in row['curve']):,.0f}" for row in own]
            found = [f"{value:.0f}" if value < float("inf") else f"over {arguments.limit:.0f}" for value in times]
            middle = statistics.median(times)
            table.add_row(
                name, ", ".join(found), f"{middle:.0f}" if middle < float("inf") else "", ", ".join(steps),
                ", ".join(best),
            )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
