"""How fast are rollouts collected, compared with the steps of the bare environment?

The bare rate is that of `gym.make("HalfCheetah-v5")` in one process. It is stepped with the actions that a policy has
chosen there before, so that both simulate the same movements. The policy has two hidden layers of 256 and acts on a
whole group of rollouts in one call; a share of its actions is overwritten. All contestants are timed in turn, several
times, with one thread, and the medians are compared. The time of `collect` includes everything: making the
environments, writing every rollout to disk, and reading the rollouts back.
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
    """A policy's .safetensors file; by default an untrained policy with two hidden layers of 256."""

    rollouts: int = 32
    """The number of episodes in each timed run."""

    group: int = 16
    """The number of episodes that one call of the policy acts for."""

    repeats: int = 5
    """The number of timed runs of every contestant, of which the median is taken."""

    seed: int = 0
    """The seed of the untrained policy and of the collection."""

    json: Path | None = None
    """Also write every number to this file."""


def untrained(seed: int) -> LoadedPolicy:
    """Makes an untrained policy of the size of the shipped teacher."""
    with without_mass_warning(), gym.make(ENV) as env:
        model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        save_policy(model, Path(folder) / "untrained.safetensors")
        return load_policy(Path(folder) / "untrained.safetensors")


def bare(env: gym.Env[Any, Any], rollouts: Rollouts, count: int) -> float:
    """Returns the steps a second of the environment alone, with the actions of the first `count` rollouts."""
    start, steps = time.perf_counter(), 0
    for rollout in rollouts[:count]:
        env.reset(seed=rollout.seed)
        for action in rollout.actions:
            env.step(action)
        steps += rollout.steps
    return steps / (time.perf_counter() - start)


def collected(policy: LoadedPolicy, arguments: Arguments, workers: int) -> tuple[float, Rollouts]:
    """Returns the steps a second of `collect`, and the rollouts."""
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
    """Times all contestants in turn, and prints the medians."""
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
