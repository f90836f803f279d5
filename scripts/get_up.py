"""Lay a half-cheetah on its back, and count how often a policy gets it up and running again.

The body begins upside down and at rest, with the environment's own noise in its pose. It counts as up if, within the
time that is given, it runs for 100 steps at more than half of the mean speed that the same policy has from its feet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from ncp_control.base.progress import tracked
from ncp_control.data.collection import spawned_seed
from ncp_control.rl import load_policy
from ncp_envs import without_mass_warning

ANGLE = 2  # the torso's angle in the positions of the half-cheetah
RUN = 100  # steps


@dataclass
class Arguments:
    """Count how often a policy gets a half-cheetah up from its back.

    Example: python scripts/get_up.py checkpoints/halfcheetah-teacher.safetensors
    """

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The policy's .safetensors file."""

    episodes: int = 100
    """How many times the body is laid on its back."""

    steps: int = 1000
    """Steps within which it must be running again."""

    seed: int = 1000
    """The seed of the poses."""

    json: bool = False
    """Print one JSON object last."""


def lay_down(env: Any) -> NDArray[Any]:
    """Turns the body upside down, at rest, and returns what the environment observes then."""
    body = env.unwrapped
    positions = body.data.qpos.copy()
    positions[ANGLE] += np.pi
    body.set_state(positions, np.zeros_like(body.data.qvel))
    observation: NDArray[Any] = body._get_obs()
    return observation


def speeds(policy: Any, envs: list[Any], seeds: list[int], on_back: bool, steps: int) -> NDArray[Any]:
    """Returns the forward speeds (B, steps) of a policy that begins on its back or on its feet."""
    seen = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    if on_back:
        seen = [lay_down(env) for env in envs]
    found, state, starts = np.zeros((len(envs), steps)), None, np.ones(len(envs), dtype=bool)
    for t in range(steps):
        actions, state = policy.predict(np.stack(seen), state, starts)
        starts[:] = False
        for k, (env, action) in enumerate(zip(envs, actions, strict=True)):
            seen[k], _, _, _, info = env.step(action)
            found[k, t] = info["x_velocity"]
    return found


def main() -> None:
    """Counts, and prints the share."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    policy, group = load_policy(arguments.checkpoint), 20
    with without_mass_warning():
        envs = [gym.make("HalfCheetah-v5", max_episode_steps=arguments.steps + 1) for _ in range(group)]
    seeds = [spawned_seed(arguments.seed, k) for k in range(max(arguments.episodes, group))]
    usual = float(speeds(policy, envs, seeds[:group], on_back=False, steps=1000).mean())
    up: list[int | None] = []
    with tracked("on its back", arguments.episodes) as tracker:
        for first in range(0, arguments.episodes, group):
            chosen = seeds[first : min(first + group, arguments.episodes)]
            found = speeds(policy, envs[: len(chosen)], chosen, on_back=True, steps=arguments.steps)
            sums = np.cumsum(np.pad(found, ((0, 0), (1, 0))), axis=1)
            running = (sums[:, RUN:] - sums[:, :-RUN]) / RUN > usual / 2
            up += [int(row.argmax()) if row.any() else None for row in running]
            tracker.advance(len(chosen), found.size)
    after = [step for step in up if step is not None]
    result = {
        "checkpoint": str(arguments.checkpoint),
        "episodes": arguments.episodes,
        "up": len(after),
        "median_steps": float(np.median(after)) if after else None,
        "speed_from_its_feet": usual,
    }
    if arguments.json:
        print(json.dumps(result))
        return
    told = f", after {result['median_steps']:.0f} steps in the median" if after else ""
    print(
        f"{arguments.checkpoint.name}: up and running again in {len(after)} of {arguments.episodes} trials{told} "
        f"(speed from its feet {usual:.1f} m/s)"
    )


if __name__ == "__main__":
    main()
