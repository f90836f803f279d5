"""`ncp-control evaluate`: the return of a policy over whole episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass
class Arguments:
    """Run a policy for whole episodes and say what return it reaches.

    Example: ncp-control evaluate checkpoints/halfcheetah-teacher.safetensors --episodes 20
    """

    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """A policy's .safetensors file."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment; by default the one that the checkpoint was trained in."""

    episodes: int = 20
    """How many episodes."""

    seed: int = 0
    """Everything random follows from it."""

    noise: Annotated[float, tyro.conf.arg(metavar="STD")] = 0.0
    """Add Gaussian noise to every observation."""

    dropout: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """Lose whole observations at random: all entries read 0."""

    sample: bool = False
    """Draw the policy's actions instead of taking their mode."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Evaluate and print."""
    import numpy as np
    import torch

    from ncp_control.rl import evaluate, load_policy
    from ncp_control.rl.building import make_env

    policy = load_policy(arguments.policy)
    note = policy.note
    env = arguments.env or note.get("env")
    if env is None:
        raise ValueError(f"{arguments.policy} does not say which environment it was trained in: add --env")
    wrappers: list[Any] = [{"ObservationNoise": {"std": arguments.noise}}] if arguments.noise else []
    if arguments.dropout:
        wrappers.append({"ObservationDropout": {"probability": arguments.dropout, "whole": True}})
    wrappers += note.get("env_wrapper", [])
    torch.set_num_threads(1)
    found = evaluate(
        policy,
        lambda: make_env(env, wrappers, note.get("env_kwargs")),
        arguments.episodes,
        arguments.seed,
        deterministic=not arguments.sample,
        progress=not arguments.json,
    )
    summary: dict[str, Any] = {
        "checkpoint": str(arguments.policy),
        "env": env,
        "noise": arguments.noise,
        "dropout": arguments.dropout,
        "episodes": len(found.returns),
        "seed": arguments.seed,
        "mean_return": float(np.mean(found.returns)),
        "std_return": float(np.std(found.returns)),
        "min_return": min(found.returns),
        "max_return": max(found.returns),
        "mean_length": float(np.mean(found.lengths)),
    }
    if arguments.json:
        print(json.dumps(summary))
    else:
        print(
            f"{arguments.policy.name} in {env}: return {summary['mean_return']:,.1f} +- {summary['std_return']:,.1f} "
            f"({summary['min_return']:,.1f} to {summary['max_return']:,.1f}) over {len(found.returns)} episodes "
            f"of {summary['mean_length']:.0f} steps"
        )
    return 0
