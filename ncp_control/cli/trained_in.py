"""The environment that a policy's file was trained in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def env_name(checkpoint: Path, note: dict[str, Any], asked: str | None) -> str:
    """The id that was asked for, or the one in the policy's note; refused where there is neither."""
    found = asked or note.get("env")
    if found is None:
        raise ValueError(f"{checkpoint} does not say which environment it was trained in: add --env")
    return str(found)


def make(name: str, note: dict[str, Any], below: Sequence[Any] = ()) -> Any:
    """The environment with the wrappers of the training, and others nearer to it."""
    from ncp_control.rl.building import make_env

    return make_env(name, [*below, *note.get("env_wrapper", [])], note.get("env_kwargs"))
