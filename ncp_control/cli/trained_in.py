"""Makes the environment that a policy was trained in, from the note in the policy's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

OVERWRITE, DEFAULT_SHARE = "RandomActionOverwrite", 0.05


def env_name(checkpoint: Path, note: dict[str, Any], asked: str | None) -> str:
    """Returns the environment's id: the one that was asked for, or else the one in the policy's note.

    An id in the note that makes Gymnasium import a module is refused, because a file must not choose which code runs.

    :param checkpoint: the policy's file
    :param note: the note in it
    :param asked: the id from the command line; None without one
    """
    from ncp_control.rl.recipes.recipe import refuse_import

    if asked:
        return asked
    env = note.get("env")
    if not isinstance(env, str):
        raise ValueError(f"{checkpoint} does not say which environment it was trained in: add --env")
    refuse_import(env, f"{checkpoint} was trained in {env}", f"--env {env}")
    return env


def make(name: str, note: dict[str, Any], below: Sequence[Any] = (), random: float | None = None) -> Any:
    """Makes the environment with the wrappers of the training.

    :param name: the environment's id
    :param note: the note in the policy's file, with the wrappers and the environment's arguments
    :param below: further wrappers, between the environment and those of the training
    :param random: the share of random actions, in place of the training's; None for that of the training
    """
    from ncp_control.rl.recipes.building import make_env

    arguments = note.get("env_kwargs") or {}
    if not isinstance(arguments, dict):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {arguments!r}")
    return make_env(name, layers(note, below, random), arguments)


def layers(note: dict[str, Any], below: Sequence[Any] = (), random: float | None = None) -> list[Any]:
    """Returns the wrappers that `make` puts around an environment, the innermost first."""
    wrappers = wrappers_in(note)
    if random is not None:
        if not 0 <= random <= 1:
            raise ValueError(f"--random takes a probability from 0 to 1, not {random:g}")
        wrappers = [wrapper for wrapper in wrappers if share_of(wrapper) is None]
        below = [*below, {OVERWRITE: {"probability": random}}] if random else below
    return [*below, *wrappers]


def disturbances(noise: float = 0.0, dropout: float = 0.0, random: float = 0.0) -> list[Any]:
    """Returns wrappers that disturb an environment, as a recipe names them, the innermost first.

    :param noise: the standard deviation of Gaussian noise on every observation
    :param dropout: the probability with which a whole observation is replaced by zeros
    :param random: the share of random actions
    """
    wrappers: list[Any] = [{OVERWRITE: {"probability": random}}] if random else []
    if noise:
        wrappers.append({"ObservationNoise": {"std": noise}})
    if dropout:
        wrappers.append({"ObservationDropout": {"probability": dropout, "whole": True}})
    return wrappers


def random_share(note: dict[str, Any], asked: float | None) -> float:
    """Returns the share of random actions in an environment that `make` makes.

    :param note: the note in the policy's file
    :param asked: the share that was asked for; None for that of the training
    """
    if asked is not None:
        return asked
    unchanged = 1.0
    for wrapper in wrappers_in(note):
        # one wrapper overwrites actions without a look at what another has done
        unchanged *= 1 - (share_of(wrapper) or 0.0)
    return round(1 - unchanged, 12)  # 0.05 rather than 0.050000000000000044


def wrappers_in(note: dict[str, Any]) -> list[Any]:
    """Returns the wrappers of the training, the innermost first, as the note in a policy's file describes them."""
    wrappers = note.get("env_wrapper", [])
    if not isinstance(wrappers, list):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {wrappers!r}")
    return wrappers


def share_of(described: Any) -> float | None:
    """Returns the share of random actions of a described wrapper; None for a wrapper that overwrites no actions."""
    from ncp_control.base.values import read_number

    if described == OVERWRITE:
        return DEFAULT_SHARE
    if not isinstance(described, dict) or list(described) != [OVERWRITE]:
        return None
    settings = described[OVERWRITE] or {}
    share = read_number(settings.get("probability", DEFAULT_SHARE)) if isinstance(settings, dict) else None
    if not isinstance(share, int | float):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {described!r}")
    return float(share)
