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

    sample: bool = False
    """Draw the policy's actions instead of taking their mode."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Evaluate and print."""
    import numpy as np

    from ncp_control.data import collect
    from ncp_control.rl import load_policy

    policy = load_policy(arguments.policy)
    env = arguments.env or policy.note.get("env")
    if env is None:
        raise ValueError(f"{arguments.policy} does not say which environment it was trained in: add --env")
    rollouts = collect(
        policy,
        env,
        rollouts=arguments.episodes,
        random_action_fraction=0.0,
        seed=arguments.seed,
        deterministic=not arguments.sample,
        progress=not arguments.json,
    )
    returns = [rollout.total_reward for rollout in rollouts]
    found: dict[str, Any] = {
        "checkpoint": str(arguments.policy),
        "env": env,
        "episodes": len(rollouts),
        "seed": arguments.seed,
        "mean_return": float(np.mean(returns)),
        "std_return": float(np.std(returns)),
        "min_return": min(returns),
        "max_return": max(returns),
        "mean_length": float(np.mean([rollout.steps for rollout in rollouts])),
    }
    if arguments.json:
        print(json.dumps(found))
    else:
        print(
            f"{arguments.policy.name} in {env}: return {found['mean_return']:.1f} +- {found['std_return']:.1f} "
            f"({found['min_return']:.1f} to {found['max_return']:.1f}) over {len(rollouts)} episodes "
            f"of {found['mean_length']:.0f} steps"
        )
    return 0
