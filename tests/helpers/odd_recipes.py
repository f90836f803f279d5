"""Recipes that train in an odd environment, and an agent that was trained in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.odd_environments import ID
from ncp_control.cli import main

RECIPE = """
env: {env}
algo: {algo}
n_timesteps: 96
env_kwargs: {{{kwargs}}}
normalize: {normalize}
policy_kwargs: {{wiring: "AutoNCP(7, 2)"}}
"""
ON_POLICY = "n_steps: 16\nbatch_size: 16\nn_epochs: 1\n"
OFF_POLICY = "learning_starts: 8\nbatch_size: 8\nsequence: 4\nburn_in: 2\nbuffer_size: 64\n"


def odd_recipe(folder: Path, algo: str = "RecurrentPPO", normalize: str = "true", **kwargs: Any) -> Path:
    """Writes a recipe that trains in the odd environment."""
    path = folder / "recipe.yml"
    written = ", ".join(f"{key}: {value}" for key, value in kwargs.items())
    text = RECIPE.format(env=ID, algo=algo, kwargs=written, normalize=normalize)
    path.write_text(text + (OFF_POLICY if algo == "RecurrentSAC" else ON_POLICY))
    return path


def trained(folder: Path) -> Path:
    """Trains an agent in the odd environment and returns its file."""
    assert main(["train", str(odd_recipe(folder)), "--out", str(folder / "trained"), "--eval-episodes", "1"]) == 0
    return folder / "trained" / "best.safetensors"
