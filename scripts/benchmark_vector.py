"""How fast are MuJoCo bodies stepped by `MujocoVectorEnv`, compared with Gymnasium's `SyncVectorEnv` and the simulator?

Both vector environments take the same random actions from the same seeds, and their observations and rewards are
compared at every step of an untimed run first: if one differs, nothing is printed. "mj_step" is the simulator alone on
as many bodies, with the same actions: no observation, no reward, no end. All contestants are timed in turn, several
times, with one thread, and the medians are compared.
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
import mujoco
import numpy as np
import tyro
from gymnasium.vector import SyncVectorEnv
from rich.console import Console
from rich.table import Table

from ncp_control.base.files import write_atomically
from ncp_envs import MujocoVectorEnv, without_mass_warning

TASKS = (
    "HalfCheetah-v5",
    "ncp/HalfCheetahNoVel-v0",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Swimmer-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
)


@dataclass
class Arguments:
    """Time MujocoVectorEnv against SyncVectorEnv and mj_step.

    Example: python scripts/benchmark_vector.py --tasks HalfCheetah-v5 Hopper-v5 --json vector.json
    """

    tasks: tuple[str, ...] = TASKS
    """The environments' ids."""

    envs: int = 16
    """Environments that run side by side."""

    steps: int = 200
    """Steps of every environment in each timed run."""

    repeats: int = 7
    """The number of timed runs of every contestant, of which the median is taken."""

    seed: int = 0
    """The seed of the environments and of the actions."""

    json: Path | None = None
    """Also write every number to this file."""


def stepped(envs: Any, actions: Any, seed: int) -> float:
    """Returns the steps a second of a vector environment."""
    envs.reset(seed=seed)
    start = time.perf_counter()
    for action in actions:
        envs.step(action)
    return actions.shape[0] * actions.shape[1] / (time.perf_counter() - start)


def simulated(envs: Any, actions: Any, seed: int) -> float:
    """Returns the steps a second of the simulator on the bodies of a vector environment."""
    envs.reset(seed=seed)
    bodies = [(env.unwrapped.model, env.unwrapped.data, env.unwrapped.frame_skip) for env in envs.envs]
    start = time.perf_counter()
    for action in actions:
        for (model, data, frames), own in zip(bodies, action, strict=True):
            data.ctrl[:] = own
            mujoco.mj_step(model, data, nstep=frames)
    return actions.shape[0] * actions.shape[1] / (time.perf_counter() - start)


def check_equal(theirs: Any, ours: Any, actions: Any, seed: int) -> None:
    """Raises unless both vector environments give the same."""
    theirs.reset(seed=seed)
    ours.reset(seed=seed)
    for action in actions:
        for one, other in zip(theirs.step(action)[:4], ours.step(action)[:4], strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def rates_of(task: str, arguments: Arguments) -> dict[str, list[float]]:
    """Times all contestants on one task."""
    made = [lambda: gym.make(task, disable_env_checker=True)] * arguments.envs
    with without_mass_warning():
        theirs, ours = SyncVectorEnv(made), MujocoVectorEnv(made)
    space = theirs.action_space
    random = np.random.default_rng(arguments.seed)
    actions = random.uniform(space.low, space.high, (arguments.steps, *space.shape)).astype(np.float32)  # type: ignore[attr-defined, misc]
    check_equal(theirs, ours, actions, arguments.seed)
    contestants: dict[str, tuple[Callable[[Any, Any, int], float], Any]] = {
        "mj_step": (simulated, ours),
        "MujocoVectorEnv": (stepped, ours),
        "SyncVectorEnv": (stepped, theirs),
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.repeats):
        for name, (measure, envs) in contestants.items():
            rates[name].append(measure(envs, actions, arguments.seed))
    theirs.close()
    ours.close()
    return rates


def main() -> None:
    """Times all contestants on all tasks, and prints the medians."""
    arguments = tyro.cli(Arguments)
    table = Table("steps a second", "mj_step", "Mujoco-\nVectorEnv", "Sync-\nVectorEnv", "ratio", "from", "to")
    found: dict[str, Any] = {}
    for task in arguments.tasks:
        rates = rates_of(task, arguments)
        ratios = [one / other for one, other in zip(rates["MujocoVectorEnv"], rates["SyncVectorEnv"], strict=True)]
        medians = {name: statistics.median(own) for name, own in rates.items()}
        found[task] = {"rates": rates, "medians": medians, "ratio": statistics.median(ratios)}
        shown = [f"{medians[name]:,.0f}" for name in ("mj_step", "MujocoVectorEnv", "SyncVectorEnv")]
        table.add_row(task, *shown, f"{found[task]['ratio']:.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}")
    Console().print(table)
    if arguments.json is not None:
        about = {"envs": arguments.envs, "steps": arguments.steps, "seed": arguments.seed, "tasks": found}
        write_atomically(arguments.json, json.dumps(about, indent=2).encode())


if __name__ == "__main__":
    main()
