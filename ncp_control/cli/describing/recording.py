"""`ncp-control describe` for a recorded rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network
from ncp_control.wiring import Wiring

Described = dict[str, Any]


def describe(path: Path) -> tuple[Described, Wiring]:
    """Returns the length, reward, circuit and origin of a recording as JSON values, and the circuit's wiring."""
    from ncp_control.activity.recording.activity import Activity

    activity = Activity.load(path)
    rewards = activity.get("rewards")
    about = {key: value for key, value in activity.about.items() if key not in ("format", "version")}
    described = {
        "steps": activity.steps,
        "episodes": int(activity.episode_starts.sum()),
        "reward": None if rewards is None else float(rewards.sum()),
        "currents_known": activity.currents_are_known,
        "time_constants_known": activity.time_constants_are_known,
        "wiring": network.describe_wiring(activity.wiring),
        "about": about,
    }
    return described, activity.wiring


def show(description: Described, wiring: Wiring) -> None:
    """Prints what `describe` returned."""
    rows = [
        (
            "recording",
            f"{description['steps']:,} steps, {description['episodes']} episode{'s' * (description['episodes'] != 1)}",
        )
    ]
    if description["reward"] is not None:
        rows.append(("reward", f"{description['reward']:,.1f}"))
    for name in ("currents", "time constants"):
        if not description[f"{name.replace(' ', '_')}_known"]:
            rows.append((name, "not known"))
    facts.show([*rows, *facts.rows_of(description["about"])])
    print(f"\nits circuit: {wiring.summary()}")
