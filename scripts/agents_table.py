"""Compare trained agents: undisturbed, under observation noise, and with lost observations.

The script takes run folders of `ncp-control train` named NAME-sSEED, evaluates the policy in each over whole episodes
from seeds that no training used, and prints a row for every NAME: the mean and the standard deviation over its seeds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from ncp_control.rl import evaluate, load_policy
from ncp_control.rl.policies.circuit import actor_circuit
from ncp_control.rl.recipes.building import make_env
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.support.progress import tracked

SEED = 10_000


@dataclass
class Arguments:
    """Evaluate run folders, and print a row for every name.

    Example: python scripts/agents_table.py runs/novel-s0 runs/novel-s1 runs/novel-s2 runs/lstm-s0
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of `ncp-control train`, named NAME-sSEED."""

    policy: str = "last"
    """Which policy of a run: "last", or "best" by its evaluations."""

    episodes: int = 16
    """Episodes in each evaluation."""

    noise: float = 0.1
    """Standard deviation of the noise on every observation."""

    dropout: float = 0.1
    """Probability that a whole observation is zero."""

    json: Path | None = None
    """Also write every number to this file."""


def measure(path: Path, arguments: Arguments) -> dict[str, Any]:
    """Returns the mean return of one policy under each disturbance."""
    policy = load_policy(path)
    note = policy.note
    disturbances: dict[str, list[Any]] = {
        "clean": [],
        "noise": [{"ObservationNoise": {"std": arguments.noise}}],
        "dropout": [{"ObservationDropout": {"probability": arguments.dropout, "whole": True}}],
    }
    found: dict[str, Any] = {"steps": note["steps"], "seed": note["seed"], "env": note["env"]}
    circuit = actor_circuit(policy.policy)
    if circuit is not None:
        found["actor_parameters"] = sum(parameter.numel() for parameter in circuit.parameters())
    for name, wrappers in disturbances.items():
        around, settings = [*wrappers, *note["env_wrapper"]], note.get("env_kwargs") or {}
        make = partial(make_env, note["env"], around, settings)
        returns, _ = evaluate(policy, make, arguments.episodes, SEED)
        found[name] = float(np.mean(returns))
    return found


def spread(values: list[float]) -> str:
    """Returns the mean and the standard deviation as text."""
    return f"{np.mean(values):,.0f} ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else f"{values[0]:,.0f}"


def main() -> None:
    """Evaluates the runs and prints the table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    files = [folder / f"{arguments.policy}.safetensors" for folder in arguments.runs]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise SystemExit(f"there is no {' or '.join(missing)}")
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with tracked("evaluating", len(files)) as tracker:
        for file in files:
            rows[file.parent.name.rsplit("-s", 1)[0]].append(measure(file, arguments))
            tracker.advance(1)
    table = Table(
        "run", "seeds", "steps", "actor", "return", f"noise {arguments.noise}", f"dropout {arguments.dropout}"
    )
    for name, found in rows.items():
        kept = [
            spread([100 * row[key] / row["clean"] for row in found]) + " %" for key in ("noise", "dropout")
        ]  # fmt: skip
        size = str(found[0].get("actor_parameters", ""))
        returns = spread([row["clean"] for row in found])
        table.add_row(name, str(len(found)), f"{found[0]['steps']:,}", size, returns, *kept)
    Console().print(table)
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps(rows, indent=2).encode())


if __name__ == "__main__":
    main()
