"""`ncp-control describe` for a policy's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli import facts

Described = dict[str, Any]


def describe(path: Path) -> Described:
    """Class, size, spaces and note of a policy, as JSON values."""
    from ncp_control.rl import load_policy

    loaded = load_policy(path)
    return {
        "class": type(loaded.policy).__name__,
        "parameters": sum(parameter.numel() for parameter in loaded.policy.parameters()),
        "observation_space": str(loaded.observation_space),
        "action_space": str(loaded.action_space),
        "normalizes_observations": loaded.normalizes,
        "sha256": loaded.sha256,
        "note": loaded.note,
    }


def show(found: Described) -> None:
    """What `describe` found, for the terminal."""
    facts.show(
        [
            ("policy", found["class"]),
            ("parameters", f"{found['parameters']:,}"),
            ("observations", found["observation_space"]),
            ("normalised", "yes" if found["normalizes_observations"] else "no"),
            ("actions", found["action_space"]),
            ("SHA-256", found["sha256"]),
            *((str(key), str(value)) for key, value in found["note"].items()),
        ]
    )
