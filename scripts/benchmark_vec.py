"""How many steps a second do environments take in one process, in worker processes, and in a process each?

"same" and "processes" are the two choices of `ncp-control train --vec`; "one each" is Stable-Baselines3's
`SubprocVecEnv`. All take the same random actions from the same seeds. The observations and rewards of the two choices
are compared in an untimed run first: if one differs, nothing is printed. Then they take turns, once for each seed, and
the ratios of each turn are compared.

The environments are a quick one, a MuJoCo body, and one whose step computes for some milliseconds of a core's time.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from ncp_control.base.files import write_atomically
from ncp_control.base.processes import core_count
from ncp_control.rl.recipes.building import make_envs
from ncp_control.rl.recipes.environments import make_env
from ncp_control.rl.recipes.recipe import Recipe

COMPUTING = "Computing-v0"
CHECKED, WARM = 20, 5  # steps that are compared, and steps before the clock starts


@dataclass
class Arguments:
    """Time environments in one process and in worker processes.

    Example: python scripts/benchmark_vec.py --envs 8 --seeds 0 1 2 3 4 --json vec.json
    """

    envs: int = 8
    """Environments side by side."""

    workers: int = 0
    """Worker processes; 0 for as many as there are cores."""

    tasks: tuple[str, ...] = ("CartPole-v1", "HalfCheetah-v5")
    """The ids of environments that are timed as they are."""

    milliseconds: tuple[float, ...] = (1.0, 3.0, 10.0)
    """The lengths of the steps that only compute."""

    seconds: float = 2.0
    """The length of a timed run in one process; the others take as many steps."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """The seeds of the environments and actions, one for each turn."""

    json: Path | None = None
    """Also write every number to this file."""


class Computing(gym.Env[Any, Any]):
    """Observes a walk; a step computes for some milliseconds of a core's time.

    :param milliseconds: of each step
    """

    def __init__(self, milliseconds: float) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (17,), np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (6,), np.float32)
        self.seconds = milliseconds / 1000

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.place, self.count = self.np_random.normal(size=17), 0
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Computes, and then takes a step."""
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            sum(range(100))
        self.count += 1
        self.place = 0.9 * self.place + self.np_random.normal(size=17)
        return self.place.copy(), float(self.place[0]), False, self.count == 200, {}


gym.register(COMPUTING, entry_point=Computing)


def recipes(arguments: Arguments) -> dict[str, Recipe]:
    """Returns the recipes that describe the timed environments, by what the table calls them."""
    found = {task: Recipe(task, "PPO", 1) for task in arguments.tasks}
    for length in arguments.milliseconds:
        found[f"{length:g} ms"] = Recipe(COMPUTING, "PPO", 1, env_kwargs={"milliseconds": length})
    return found


def one_each(recipe: Recipe, count: int) -> VecEnv:
    """Makes Stable-Baselines3's vector of environments in a process each."""
    make = partial(make_env, recipe.env, recipe.env_wrapper, recipe.env_kwargs)
    return SubprocVecEnv([lambda: Monitor(make()) for _ in range(count)], start_method="fork")


def check_equal(one: VecEnv, other: VecEnv, seed: int) -> None:
    """Raises unless both vectors of environments give the same."""
    for envs in (one, other):
        envs.seed(seed)
    np.testing.assert_array_equal(one.reset(), other.reset())  # type: ignore[arg-type]
    for action in actions_for(one, CHECKED, seed):
        for mine, its in zip(one.step(action)[:3], other.step(action)[:3], strict=True):
            np.testing.assert_array_equal(mine, its, strict=True)  # type: ignore[arg-type]


def actions_for(envs: VecEnv, steps: int, seed: int) -> list[Any]:
    """Returns random actions for so many steps."""
    envs.action_space.seed(seed)
    return [np.array([envs.action_space.sample() for _ in range(envs.num_envs)]) for _ in range(steps)]


def rate(envs: VecEnv, steps: int, seed: int) -> float:
    """Returns the steps a second, counted over all environments."""
    envs.seed(seed)
    envs.reset()
    actions = actions_for(envs, WARM + steps, seed)
    for action in actions[:WARM]:
        envs.step(action)
    start = time.perf_counter()
    for action in actions[WARM:]:
        envs.step(action)
    return steps * envs.num_envs / (time.perf_counter() - start)


def rates_of(recipe: Recipe, arguments: Arguments, workers: int) -> dict[str, list[float]]:
    """Times all contestants on one kind of environment, once for each seed."""
    count = arguments.envs
    contestants = {
        "same": make_envs(recipe, count, training=True),
        "processes": make_envs(recipe, count, training=True, workers=workers),
        "one each": one_each(recipe, count),
    }
    try:
        check_equal(contestants["same"], contestants["processes"], arguments.seeds[0])
        steps = max(10, round(arguments.seconds * rate(contestants["same"], CHECKED, arguments.seeds[0]) / count))
        turns = [{name: rate(envs, steps, seed) for name, envs in contestants.items()} for seed in arguments.seeds]
    finally:
        for envs in contestants.values():
            envs.close()
    return {name: [turn[name] for turn in turns] for name in contestants}


def main() -> None:
    """Times all contestants on all environments, and prints medians and ratios."""
    arguments = tyro.cli(Arguments)
    workers = min(arguments.workers or core_count(), arguments.envs)
    title = f"{arguments.envs} environments, {workers} worker processes, {core_count()} cores"
    columns = ("same", "processes", "one each", "processes\n/ same", "range", "one each\n/ same")
    table, found = Table("", *columns, title=f"steps a second: {title}"), {}
    for name, recipe in recipes(arguments).items():
        rates = found[name] = rates_of(recipe, arguments, workers)
        ratios = [one / other for one, other in zip(rates["processes"], rates["same"], strict=True)]
        others = [one / other for one, other in zip(rates["one each"], rates["same"], strict=True)]
        speeds = [f"{statistics.median(own):,.0f}" for own in rates.values()]
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        table.add_row(name, *speeds, f"{statistics.median(ratios):.2f}", spread, f"{statistics.median(others):.2f}")
    Console().print(table)
    if arguments.json is not None:
        about = {"envs": arguments.envs, "workers": workers, "cores": core_count(), "seeds": arguments.seeds}
        write_atomically(arguments.json, json.dumps({**about, "rates": found}, indent=2).encode())


if __name__ == "__main__":
    main()
