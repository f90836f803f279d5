"""Measure how fast SAC trains beside Stable-Baselines3's own, with the same updates, and whether it learns alike.

Speed: steps a second of `learn` after the replay buffer has filled, one thread, two hidden layers of 256, batches of
256. The contestants take turns, and the ratios of each turn are compared. The first two differ in the update alone;
the third also has several environments side by side, and makes its updates in a row. `--others` adds TQC and CrossQ of
sb3-contrib with their own networks, and `--recurrent` a circuit with critics that read windows of observations: as
RecurrentSAC trains it, and with the same losses by Stable-Baselines3's `train`.

Learning (`--learn STEPS`): the returns of trainings from several seeds, over deterministic evaluations in the same
environment, ours and Stable-Baselines3's.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
import tyro
from rich.console import Console
from rich.table import Table
from sb3_contrib import TQC, CrossQ
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from ncp_control.base.files import write_atomically
from ncp_control.base.progress import tracked
from ncp_control.rl import SAC, RecurrentSAC
from ncp_control.rl.off_policy import SequenceTraining
from ncp_envs import without_mass_warning

POLICY: dict[str, Any] = {"net_arch": [256, 256]}
CIRCUIT: dict[str, Any] = {"critic": "window", "wiring": "AutoNCP(48, 16)", "cell": "neuralltc"}
START = 1000  # steps at random, before the first update
STOCK = "Stable-Baselines3, 1 environment"
TARGET = 1.3


@dataclass
class Arguments:
    """Time the training of SAC beside Stable-Baselines3's, and compare what both learn.

    Example: python scripts/benchmark_off_policy.py --turns 5 --recurrent
    Example: python scripts/benchmark_off_policy.py --turns 0 --learn 15000 --env InvertedDoublePendulum-v5
    """

    env: str = "HalfCheetah-v5"
    """The environment."""

    turns: int = 5
    """Timed turns of each contestant, after one that is not timed."""

    steps: int = 400
    """Steps in a turn."""

    envs: int = 8
    """Environments side by side of the third contestant."""

    others: bool = False
    """Also time TQC and CrossQ of sb3-contrib."""

    recurrent: bool = False
    """Also time a circuit that RecurrentSAC trains, by both updates."""

    learn: int = 0
    """Also train from each seed for so many steps; 0 to leave it out."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds of these trainings."""

    points: int = 5
    """Evaluations in each training, over 10 episodes."""

    json: Path | None = None
    """Also write every number to this file."""


class StockUpdates(RecurrentSAC):
    """RecurrentSAC, trained by the method of Stable-Baselines3."""

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Leaves out the faster updates."""
        SequenceTraining.train(self, gradient_steps, batch_size)


def make_envs(name: str, count: int) -> DummyVecEnv:
    """Makes environments in one process."""
    with without_mass_warning():
        return DummyVecEnv([lambda: gym.make(name, disable_env_checker=True)] * count)


def make_model(kind: Any, env: str, count: int, seed: int) -> Any:
    """Makes a model that updates its networks as often as it takes steps."""
    recurrent = issubclass(kind, RecurrentSAC)
    policy_kwargs = CIRCUIT if recurrent else POLICY if issubclass(kind, stable_baselines3.SAC) else {}
    return kind(
        "NCPPolicy" if recurrent else "MlpPolicy",
        make_envs(env, count),
        gradient_steps=count,
        learning_starts=START,
        policy_kwargs=dict(policy_kwargs),
        seed=seed,
        device="cpu",
    )


def rates(arguments: Arguments) -> dict[str, list[float]]:
    """Returns the steps a second of each contestant in each turn."""
    side = f"ours, {arguments.envs} environments, {arguments.envs} updates in a row"
    models = {
        STOCK: make_model(stable_baselines3.SAC, arguments.env, 1, 0),
        "ours, 1 environment": make_model(SAC, arguments.env, 1, 0),
        side: make_model(SAC, arguments.env, arguments.envs, 0),
    }
    if arguments.others:
        models |= {f"{kind.__name__}, 1 environment": make_model(kind, arguments.env, 1, 0) for kind in (TQC, CrossQ)}
    if arguments.recurrent:
        models |= {
            f"a circuit, {name}": make_model(kind, arguments.env, 1, 0)
            for name, kind in {"RecurrentSAC": RecurrentSAC, "the updates of Stable-Baselines3": StockUpdates}.items()
        }
    found: dict[str, list[float]] = {name: [] for name in models}
    for model in models.values():
        model.learn(START + 50 * model.n_envs)
    for turn in range(arguments.turns + 1):
        for name, model in models.items():
            before, start = model.num_timesteps, time.perf_counter()
            model.learn(arguments.steps, reset_num_timesteps=False)
            if turn:
                found[name].append((model.num_timesteps - before) / (time.perf_counter() - start))
    return found


class Evaluations(BaseCallback):
    """Evaluates a model every so many steps.

    :param env: the environment
    :param every: steps between evaluations
    """

    def __init__(self, env: str, every: int, tracker: Any) -> None:
        super().__init__()
        self.envs, self.every, self.tracker = make_envs(env, 5), every, tracker
        self.found: list[float] = []

    def _on_step(self) -> bool:
        self.tracker.advance(1, 1)
        if self.num_timesteps % self.every == 0:
            state = torch.random.get_rng_state(), np.random.get_state()
            self.envs.seed(self.num_timesteps)
            self.found.append(float(np.mean(evaluate_policy(self.model, self.envs, 10, warn=False)[0])))
            torch.random.set_rng_state(state[0])
            np.random.set_state(state[1])
        return True


def curves(arguments: Arguments) -> dict[str, list[list[float]]]:
    """Returns the returns (seed, point) of both classes."""
    every, found = arguments.learn // arguments.points, {}
    with tracked("learning", 2 * len(arguments.seeds) * arguments.learn) as tracker:
        for name, kind in {"Stable-Baselines3": stable_baselines3.SAC, "ours": SAC}.items():
            found[name] = []
            for seed in arguments.seeds:
                callback = Evaluations(arguments.env, every, tracker)
                make_model(kind, arguments.env, 1, seed).learn(arguments.learn, callback=callback)
                found[name].append(callback.found)
    return found


def main() -> None:
    """Measures what was asked for and prints the tables."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    result: dict[str, Any] = {}
    if arguments.turns:
        result["rates"] = rates(arguments)
        table = Table(f"SAC in {arguments.env}", "steps a second", "over Stable-Baselines3", "from", "to", "target")
        for name, own in result["rates"].items():
            ratios = [mine / theirs for mine, theirs in zip(own, result["rates"][STOCK], strict=True)]
            target = f"{TARGET:g}" if name.startswith("ours") else ""
            ratio = [f"{value:.2f}" for value in (statistics.median(ratios), min(ratios), max(ratios))]
            table.add_row(name, f"{statistics.median(own):,.0f}", *ratio, target)
        Console().print(table)
    if arguments.learn:
        result["curves"] = curves(arguments)
        every = arguments.learn // arguments.points
        columns = [f"{every * (k + 1):,} steps" for k in range(arguments.points)]
        table = Table(f"return in {arguments.env}, {len(arguments.seeds)} seeds", *columns)
        for name, own in result["curves"].items():
            means, spreads = np.mean(own, axis=0), np.std(own, axis=0, ddof=1 if len(own) > 1 else 0)
            cells = [f"{mean:,.0f} +- {spread:,.0f}" for mean, spread in zip(means, spreads, strict=True)]
            table.add_row(name, *cells)
        Console().print(table)
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps(result, indent=2).encode())


if __name__ == "__main__":
    main()
