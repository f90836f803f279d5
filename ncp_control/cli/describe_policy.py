"""`ncp-control describe` for a policy's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("policy", found["class"])
    facts.add_row("parameters", f"{found['parameters']:,}")
    facts.add_row("observations", escape(found["observation_space"]))
    facts.add_row("normalised", "yes" if found["normalizes_observations"] else "no")
    facts.add_row("actions", escape(found["action_space"]))
    facts.add_row("SHA-256", found["sha256"])
    for key, value in found["note"].items():
        facts.add_row(escape(str(key)), escape(str(value)))
    Console(highlight=False).print(facts)
