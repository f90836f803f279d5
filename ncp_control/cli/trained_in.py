"""The environment that a policy's file was trained in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def env_name(checkpoint: Path, note: dict[str, Any], asked: str | None) -> str:
    """The id that was asked for, or the one in the policy's note; refused where there is neither, and where the note's
    makes Gymnasium import a module: a file must not choose what is run.
    """
    if asked:
        return asked
    found = note.get("env")
    if not isinstance(found, str):
        raise ValueError(f"{checkpoint} does not say which environment it was trained in: add --env")
    module = found.rpartition(":")[0]
    if module not in ("", "ncp_envs"):
        raise ValueError(f"{checkpoint} was trained in {found}: if importing {module} is safe, add --env {found}")
    return found


def make(name: str, note: dict[str, Any], below: Sequence[Any] = ()) -> Any:
    """The environment with the wrappers of the training, and others nearer to it."""
    from ncp_control.rl.recipes.building import make_env

    wrappers, arguments = note.get("env_wrapper", []), note.get("env_kwargs") or {}
    if not isinstance(wrappers, list) or not isinstance(arguments, dict):
        raise ValueError(f"the checkpoint's note on its environment is not to be read: {wrappers!r}, {arguments!r}")
    return make_env(name, [*below, *wrappers], arguments)
