"""Makes the environment that a policy was trained in, from the note in the policy's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


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
    found = note.get("env")
    if not isinstance(found, str):
        raise ValueError(f"{checkpoint} does not say which environment it was trained in: add --env")
    refuse_import(found, f"{checkpoint} was trained in {found}", f"--env {found}")
    return found


def make(name: str, note: dict[str, Any], below: Sequence[Any] = ()) -> Any:
    """Makes the environment with the wrappers of the training.

    :param name: the environment's id
    :param note: the note in the policy's file, with the wrappers and the environment's arguments
    :param below: further wrappers, between the environment and those of the training
    """
    from ncp_control.rl.recipes.building import make_env

    wrappers, arguments = note.get("env_wrapper", []), note.get("env_kwargs") or {}
    if not isinstance(wrappers, list) or not isinstance(arguments, dict):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {wrappers!r}, {arguments!r}")
    return make_env(name, [*below, *wrappers], arguments)
