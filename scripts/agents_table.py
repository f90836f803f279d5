"""Compare trained agents: undisturbed, under observation noise, and with lost observations.

The script takes run folders of `ncp-control train` named NAME-sSEED, evaluates the policy in each over whole episodes
from seeds that no training used, and prints a row for every NAME: the mean and the standard deviation over its seeds.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from ncp_control.base.files import temporary_folder, write_atomically
from ncp_control.base.processes import INPUTS, Job
from ncp_control.base.progress import tracked
from ncp_control.cli.where import Where
from ncp_control.rl import load_policy
from ncp_control.rl.policies.circuit import actor_circuit
from ncp_control.scale.plan import COMMAND

SEED = 10_000


@dataclass
class Arguments:
    """Evaluate run folders, and print a row for every name.

    Example: python scripts/agents_table.py runs/positions-s0 runs/positions-s1 runs/positions-s2 runs/lstm-s0
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
    """Probability that an observation is lost."""

    json: Path | None = None
    """Also write every number to this file."""

    where: Annotated[Where, tyro.conf.arg(name="")] = field(default_factory=Where)


def jobs_of(files: list[Path], arguments: Arguments, root: Path) -> list[Job]:
    """Returns an evaluation of each policy under each disturbance, as commands that run apart."""
    jobs = []
    for k, file in enumerate(files):
        (root / INPUTS).mkdir(exist_ok=True)
        policy = f"{INPUTS}/{k}.safetensors"
        (root / policy).symlink_to(file.resolve())
        for name, options in (
            ("clean", []),
            ("noise", ["--noise", arguments.noise]),
            ("dropout", ["--dropout", arguments.dropout]),
        ):
            words = ["evaluate", policy, "--episodes", arguments.episodes, "--seed", SEED, *options, "--json"]
            log = f"{k}-{name}.txt"
            told = {"words": [str(word) for word in words], "log": log}
            jobs.append(Job(f"{k} {name}", COMMAND, told, reads=(policy,), writes=(log,)))
    return jobs


def described(path: Path) -> dict[str, Any]:
    """Returns what a policy's file says of its training, and how many parameters its circuit has."""
    policy = load_policy(path)
    found = {key: policy.note[key] for key in ("steps", "seed", "env")}
    circuit = actor_circuit(policy.policy)
    if circuit is not None:
        found["actor_parameters"] = sum(parameter.numel() for parameter in circuit.parameters())
    return found


def spread(values: list[float]) -> str:
    """Returns the mean and the standard deviation as text."""
    return f"{np.mean(values):,.0f} ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else f"{values[0]:,.0f}"


def main() -> None:
    """Evaluates the runs and prints the table."""
    arguments = tyro.cli(Arguments)
    files = [folder / f"{arguments.policy}.safetensors" for folder in arguments.runs]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise SystemExit(f"there is no {' or '.join(missing)}")
    found = [described(file) for file in files]
    with (
        temporary_folder(Path(tempfile.gettempdir()) / "agents") as root,
        tracked("evaluating", 3 * len(files)) as tracker,
    ):
        for event in arguments.where.place().run(jobs_of(files, arguments, root), root):
            if event.kind == "failed":
                raise SystemExit(str(event.value))
            if event.kind == "done":
                number, name = event.job.split()
                found[int(number)][name] = event.value["mean_return"]
                tracker.advance(1)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file, row in zip(files, found, strict=True):
        rows[file.parent.name.rsplit("-s", 1)[0]].append(row)
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
