"""Compare the cells on small tasks in which only memory counts, at about equal numbers of parameters.

The script trains every cell on every task, once for each seed, with the recipe of the task, and prints the mean and the
standard deviation of the returns, which are shares of right answers. An MLP of the same size, which has no memory,
shows what the present observation tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from ncp_control.base.files import write_atomically
from ncp_control.rl import evaluate, load_policy, load_recipe, train
from ncp_control.rl.policies.circuit import actor_circuit
from ncp_control.rl.recipes.building import make_env
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.runs.run import LAST

# The best returns without a memory and with one; see `ncp_envs.memory`.
TASKS = {"recall": (0.25, 1.0), "tmaze": (0.5, 1.0), "repeat-previous": (0.25, 1.0), "autoencode": (0.5, 1.0)}
# Neurons whose time constants reach the length of an episode, and two solver steps for one of the task.
LIQUID = {"time_constants": [1.0, 30.0], "unfolds": 2}
CELLS: dict[str, dict[str, Any]] = {
    "ltc": {"wiring": 16, "cell": "ltc", "cell_kwargs": LIQUID},
    "neuralltc": {"wiring": 35, "cell": "neuralltc", "cell_kwargs": LIQUID},
    "dualltc": {"wiring": 24, "cell": "dualltc"},
    "cfc": {"wiring": 16, "cell": "cfc"},
    "lstm": {"wiring": 16, "cell": "lstm"},
    "mlp": {"net_arch": [35, 35]},
}
RATES = {"ltc": "lin_3e-2"}  # of cells that want another one than the recipe's
SEED = 10_000


@dataclass
class Arguments:
    """Train all cells on all tasks, and print a table. A run that is complete in its folder is not made again.

    Example: python scripts/memory_table.py --seeds 0 --tasks recall tmaze --cells cfc lstm
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    """The names of the recipes."""

    cells: tuple[str, ...] = tuple(CELLS)
    """The cells, and "mlp" for a network without a memory."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds of the trainings."""

    steps: int | None = None
    """Steps of each training, in place of the recipe's."""

    episodes: int = 200
    """Episodes in the evaluation of each training."""

    out: Path = Path("runs/memory")
    """The folder of the runs."""

    json: Path | None = None
    """Also write every number to this file."""


def recipe_of(task: str, cell: str, steps: int | None = None) -> Recipe:
    """Returns the recipe of a task, for one of the cells."""
    changes: dict[str, Any] = {"learning_rate": RATES.get(cell), "n_timesteps": steps}
    recipe = load_recipe(task, {key: value for key, value in changes.items() if value is not None})
    recipe.policy_kwargs = {**recipe.policy_kwargs, **CELLS[cell]}
    if cell == "mlp":
        recipe.algo, recipe.policy, recipe.policy_kwargs = "PPO", "MlpPolicy", CELLS[cell]
        del recipe.settings["sequence"]
    return recipe


def measure(task: str, cell: str, seed: int, arguments: Arguments) -> dict[str, Any]:
    """Trains one cell on one task, and returns its mean return, its size and the time that it took."""
    recipe, out = recipe_of(task, cell, arguments.steps), arguments.out / f"{task}-{cell}-s{seed}"
    result = train(recipe, out, seed=seed, resume=True)
    policy = load_policy(out / LAST)
    circuit = actor_circuit(policy.policy)
    actor = policy.policy.mlp_extractor.policy_net if circuit is None else circuit
    found = evaluate(policy, partial(make_env, recipe.env), arguments.episodes, SEED + seed)
    return {
        "task": task, "cell": cell, "seed": seed, "return": float(np.mean(found.returns)), "seconds": result.seconds,
        "parameters": sum(own.numel() for own in actor.parameters()),
    }  # fmt: skip


def main() -> None:
    """Trains, evaluates, and prints the table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    rows = []
    for task in arguments.tasks:
        for cell in arguments.cells:
            for seed in arguments.seeds:
                rows.append(measure(task, cell, seed, arguments))
                if arguments.json is not None:
                    write_atomically(arguments.json, json.dumps(rows, indent=2).encode())
    table = Table("cell", *(f"{task}\n(chance {TASKS[task][0]}, best {TASKS[task][1]:g})" for task in arguments.tasks))
    table.add_column("parameters")
    table.add_column("seconds")
    for cell in arguments.cells:
        own = [row for row in rows if row["cell"] == cell]
        cells = []
        for task in arguments.tasks:
            returns = [row["return"] for row in own if row["task"] == task]
            cells.append(f"{np.mean(returns):.2f} ± {np.std(returns, ddof=min(1, len(returns) - 1)):.2f}")
        cells += [f"{np.mean([row[key] for row in own]):.0f}" for key in ("parameters", "seconds")]
        table.add_row(cell, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
