"""Ranks policies by the returns that a model of the dynamics foretells, and says how well it ranks them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from scipy.stats import spearmanr

from ncp_control.cli import evaluate, evaluate_inside


@dataclass
class Arguments:
    """Print the return of each policy in a model and in its environment, and Spearman's correlation of their ranks.

    Example: python scripts/rank_policies.py runs/*/best.safetensors --in runs/cheetah/best.safetensors
    """

    policies: tyro.conf.Positional[tuple[Path, ...]]
    """The .safetensors files of the policies, at least two."""

    inside: Annotated[tuple[Path, ...], tyro.conf.arg(name="in")]
    """Models of the dynamics; several are an ensemble."""

    episodes: int = 20
    """Number of episodes of each policy, in the model and in its environment."""

    seed: int = 0
    """Everything random follows from it."""

    json: bool = False
    """Print one JSON object last."""


def main() -> None:
    """Evaluates the policies, and prints the table, the best first."""
    arguments = tyro.cli(Arguments)
    if len(arguments.policies) < 2 or not arguments.inside:
        raise SystemExit("name at least two policies, and a model after --in")
    found = [
        evaluate_inside.evaluate(
            evaluate.Arguments(
                path, inside=arguments.inside, episodes=arguments.episodes, seed=arguments.seed, json=arguments.json
            )
        )
        for path in arguments.policies
    ]
    found.sort(key=lambda one: -one["model_return"])
    returns = [[one[f"{kind}_return"] for one in found] for kind in ("model", "true")]
    vary = all(len(set(row)) > 1 for row in returns)
    correlation = float(spearmanr(*returns).statistic) if vary else None
    if arguments.json:
        print(json.dumps({"policies": found, "spearman": correlation}))
        return
    width = max(len(one["checkpoint"]) for one in found)
    print(f"{'':<{width}}{'in the model':>22}{'in truth':>22}")
    for one in found:
        print(
            f"{one['checkpoint']:<{width}}"
            + "".join(f"{one[f'{kind}_return']:>12,.1f} +- {one[f'{kind}_std']:>6,.1f}" for kind in ("model", "true"))
        )
    print("\nSpearman's rank correlation: " + ("none" if correlation is None else f"{correlation:.2f}"))


if __name__ == "__main__":
    main()
