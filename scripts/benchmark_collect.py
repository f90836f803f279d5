"""How fast are rollouts collected, against nothing but the environment's own steps?

The bare rate is that of `gym.make("HalfCheetah-v5")` in one process, stepped with the actions that the controller chose
there before, so that both simulate the same movements. The controller has two hidden layers of 256 and acts on a whole
group of rollouts in one call; a share of its actions is overwritten. All contestants are timed in turn, several times,
with one thread; the medians count. What is timed is all of `collect`: making the environments, writing every rollout
to disk, reading them back.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from rich.table import Table
from stable_baselines3 import PPO

from ncp_control.data import Rollouts, collect
from ncp_control.rl import LoadedPolicy, load_policy, save_policy
from ncp_envs import without_mass_warning

ENV = "HalfCheetah-v5"


@dataclass
class Arguments:
    """Time the collection of rollouts against the bare environment.

    Example: python scripts/benchmark_collect.py --policy checkpoints/halfcheetah-teacher.safetensors
    """

    policy: Path | None = None
    """A policy's .safetensors file; by default an untrained one with two hidden layers of 256."""

    rollouts: int = 32
    """Episodes of each timed run."""

    group: int = 16
    """Episodes that one call of the policy acts for."""

    repeats: int = 5
    """Timed runs of every contestant; the median counts."""

    seed: int = 0
    """Of the untrained policy, and of the collection."""

    json: Path | None = None
    """Also write every number here."""


def untrained(seed: int) -> LoadedPolicy:
    """A policy of the teacher's size."""
    with without_mass_warning(), gym.make(ENV) as env:
        model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        save_policy(model, Path(folder) / "untrained.safetensors")
        return load_policy(Path(folder) / "untrained.safetensors")


def bare(env: gym.Env[Any, Any], rollouts: Rollouts, count: int) -> float:
    """Steps a second of the environment alone, through the actions of some rollouts."""
    start, steps = time.perf_counter(), 0
    for rollout in rollouts[:count]:
        env.reset(seed=rollout.seed)
        for action in rollout.actions:
            env.step(action)
        steps += rollout.steps
    return steps / (time.perf_counter() - start)


def collected(policy: LoadedPolicy, arguments: Arguments, workers: int) -> tuple[float, Rollouts]:
    """Steps a second of `collect`, and what it collected."""
    start = time.perf_counter()
    rollouts = collect(
        policy,
        ENV,
        arguments.rollouts,
        seed=arguments.seed,
        workers=workers,
        group=arguments.group,
        progress=False,
    )
    return rollouts.steps / (time.perf_counter() - start), rollouts


def main() -> None:
    """Time all contestants in turn, and print the medians."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    policy = untrained(arguments.seed) if arguments.policy is None else load_policy(arguments.policy)
    _, rollouts = collected(policy, arguments, 1)
    rates: dict[str, list[float]] = {"bare": [], "1 worker": [], "2 workers": []}
    with without_mass_warning():
        env = gym.make(ENV)
    for _ in range(arguments.repeats):
        rates["bare"].append(bare(env, rollouts, count=8))
        rates["1 worker"].append(collected(policy, arguments, 1)[0])
        rates["2 workers"].append(collected(policy, arguments, 2)[0])
    table = Table("", "steps a second", "of the bare rate", "from", "to")
    found = {}
    for name, own in rates.items():
        ratios = [rate / base for rate, base in zip(own, rates["bare"], strict=True)]
        found[name] = {"rates": own, "rate": statistics.median(own), "ratio": statistics.median(ratios)}
        table.add_row(
            name,
            f"{found[name]['rate']:,.0f}",
            f"{found[name]['ratio']:.2f}",
            f"{min(ratios):.2f}",
            f"{max(ratios):.2f}",
        )
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
