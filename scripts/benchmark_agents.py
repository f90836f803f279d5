"""Measure how fast agents train and act, beside the agents of Stable-Baselines3 and sb3-contrib.

Training: steps per second of `learn` on ncp/HalfCheetahNoVel-v0, 8 environments x 512 steps, batches of 1024, 10
epochs, one thread. The contestants take turns, with one rollout and its training each; the medians are compared.
Recipe: the same for a shipped recipe as it is, each contestant in a process of its own, beside another version of these
packages (`--other FOLDER`) and beside Stable-Baselines3's PPO with all its defaults, in one environment.
Acting: the time of `predict` for one observation, in turns as well.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
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
from ncp_control.base.files import write_atomically
from ncp_control.rl import RecurrentPPO, load_recipe

ENV = "ncp/HalfCheetahNoVel-v0"
SETTINGS: dict[str, Any] = {"n_steps": 512, "batch_size": 1024, "n_epochs": 10, "device": "cpu", "seed": 0}
CIRCUIT = "circuit"
STOCK, LOOPLESS, MLP = "stock RecurrentPPO, LSTM-64", "LSTM-64, the loop removed", "PPO, MLP 64 x 64"
TARGETS = {STOCK: 10.0, LOOPLESS: 0.8, MLP: 0.35}
# A process that trains on one rollout for every line that it reads, and prints its steps a second.
TURNS = """
import sys, time
sys.path[:0] = {path!r}
import torch
torch.set_num_threads(1)
{make}
steps = model.n_steps * model.n_envs
for line in sys.stdin:
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    print(steps / (time.perf_counter() - start), flush=True)
"""
RECIPE = """
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import load_recipe
recipe = load_recipe({recipe!r})
model = make_model(recipe, make_envs(recipe, recipe.n_envs, training=True), 0, "cpu")
"""
DEFAULTS = """
import ncp_envs
from stable_baselines3 import PPO
model = PPO("MlpPolicy", {env!r}, device="cpu", seed=0)
"""
OURS, OTHER, PLAIN = "this version", "the other version", "PPO, MLP, all defaults"


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

    recipe: str = "halfcheetah-positions"
    """A recipe that is trained as it is."""

    other: Path | None = None
    """A folder with another version of the packages, which trains the recipe as well."""

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


def train_in_turns(arguments: Arguments, env: str) -> dict[str, list[float]]:
    """Returns the steps a second of the recipe and of those beside it, by name; the first rollout is not counted."""
    recipe = RECIPE.format(recipe=arguments.recipe)
    works = {
        OURS: TURNS.format(make=recipe, path=[]),
        PLAIN: TURNS.format(make=DEFAULTS.format(env=env), path=[]),
    }
    if arguments.other is not None:
        works[OTHER] = TURNS.format(make=recipe, path=[str(arguments.other), str(arguments.other / "envs")])
    pipe = subprocess.PIPE
    processes = {
        name: subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdin=pipe, stdout=pipe, text=True)
        for name, code in works.items()
    }
    rates: dict[str, list[float]] = {name: [] for name in works}
    for k in range(arguments.rollouts + 1):
        for name, process in processes.items():
            print("go", file=process.stdin, flush=True)
            rate = float(process.stdout.readline())  # type: ignore[union-attr]
            if k:
                rates[name].append(rate)
    for process in processes.values():
        process.communicate()
    return rates


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
    table = Table(f"recipe {arguments.recipe}", "steps a second", "this version's rate over it", "target")
    found["recipe"] = turns = train_in_turns(arguments, load_recipe(arguments.recipe).env)
    for name, own in turns.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(turns[OURS], own, strict=True))
        table.add_row(name, f"{statistics.median(own):,.0f}", f"{ratio:.2f}", {OTHER: "2", PLAIN: "1"}.get(name, ""))
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
