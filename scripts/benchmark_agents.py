"""Measure how fast agents train and act, beside the agents of Stable-Baselines3 and sb3-contrib.

Training: steps per second of `learn` on ncp/HalfCheetahNoVel-v0, 8 environments x 512 steps, batches of 1024, 10
epochs, one thread. The contestants take turns, with one rollout and its training each; the medians are compared.
Acting: the time of `predict` for one observation, in turns as well.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from rich.table import Table
from sb3_contrib import RecurrentPPO as StockRecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_control as nc
import ncp_envs
from ncp_control.rl import RecurrentPPO
from ncp_control.storage.atomic_writes import write_atomically

ENV = "ncp/HalfCheetahNoVel-v0"
SETTINGS: dict[str, Any] = {"n_steps": 512, "batch_size": 1024, "n_epochs": 10, "device": "cpu", "seed": 0}
CIRCUIT = "circuit"
STOCK, LOOPLESS, MLP = "stock RecurrentPPO, LSTM-64", "LSTM-64, the loop removed", "PPO, MLP 64 x 64"
TARGETS = {STOCK: 10.0, LOOPLESS: 0.8, MLP: 0.35}


@dataclass
class Arguments:
    """Time training and acting.

    Example: python scripts/benchmark_agents.py --rollouts 3
    """

    rollouts: int = 3
    """Timed rollouts for each contestant, after one that is not timed."""

    calls: int = 2000
    """Timed calls of `predict`."""

    stock: bool = True
    """Also time sb3-contrib's own RecurrentPPO, which takes about 20 seconds per rollout."""

    json: Path | None = None
    """Also write every number to this file."""


def contestants(stock: bool) -> dict[str, Callable[[Any], Any]]:
    """Returns by name the functions that make the models.

    :param stock: include sb3-contrib's own RecurrentPPO
    """
    found: dict[str, Callable[[Any], Any]] = {
        CIRCUIT: lambda env: RecurrentPPO(
            "NCPPolicy", env, policy_kwargs={"wiring": nc.AutoNCP(40, 16), "cell": "ltc"}, **SETTINGS
        ),
        "circuit, LSTM-40 critic": lambda env: RecurrentPPO(
            "NCPPolicy",
            env,
            policy_kwargs={"wiring": nc.AutoNCP(40, 16), "cell": "ltc", "critic": "lstm", "critic_units": 40},
            **SETTINGS,
        ),
        LOOPLESS: lambda env: RecurrentPPO("NCPPolicy", env, policy_kwargs={"wiring": 64, "cell": "lstm"}, **SETTINGS),
        MLP: lambda env: PPO("MlpPolicy", env, **SETTINGS),
    }
    if stock:
        found[STOCK] = lambda env: StockRecurrentPPO(
            "MlpLstmPolicy", env, policy_kwargs={"lstm_hidden_size": 64, "net_arch": []}, **SETTINGS
        )
    return found


def make_envs() -> VecNormalize:
    """Makes eight environments in one process."""
    with ncp_envs.without_mass_warning():
        return VecNormalize(DummyVecEnv([lambda: gym.make(ENV, disable_env_checker=True)] * 8))


def seconds(work: Callable[[], Any]) -> float:
    """Returns how long a function takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def train(model: Any) -> None:
    """Collects one rollout and learns from it."""
    model.learn(SETTINGS["n_steps"] * 8, reset_num_timesteps=False)


def acting(models: dict[str, Any], calls: int) -> dict[str, float]:
    """Returns the median time of one `predict` by name; recurrent models carry their state along."""
    observation = make_envs().venv.reset()[0]
    times: dict[str, list[float]] = {name: [] for name in models}
    states: dict[str, Any] = dict.fromkeys(models)
    for _ in range(calls):
        for name, model in models.items():
            start = time.perf_counter()
            _, states[name] = model.predict(observation, states[name], deterministic=True)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def main() -> None:
    """Times all contestants in turn and prints the tables."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    models = {name: make(make_envs()) for name, make in contestants(arguments.stock).items()}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for k in range(arguments.rollouts + 1):
        for name, model in models.items():
            took = seconds(lambda model=model: train(model))
            if k:
                rates[name].append(SETTINGS["n_steps"] * 8 / took)
    predict = acting(models, arguments.calls)
    table = Table("training", "steps a second", "the circuit's rate over it", "target")
    found: dict[str, Any] = {"rates": rates, "predict": predict}
    for name, own in rates.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates[CIRCUIT], own, strict=True))
        found.setdefault("ratios", {})[name] = ratio
        target = f"{TARGETS[name]:g}" if name in TARGETS else ""
        table.add_row(name, f"{statistics.median(own):,.0f}", f"{ratio:.2f}", target)
    Console().print(table)
    table = Table("acting", "one predict", "over the MLP's", "target")
    for name, own_time in predict.items():
        target = "1.3" if name == CIRCUIT else ""
        table.add_row(name, f"{1e6 * own_time:,.0f} µs", f"{own_time / predict[MLP]:.2f}", target)
    Console().print(table)
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps(found, indent=2).encode())


if __name__ == "__main__":
    main()
