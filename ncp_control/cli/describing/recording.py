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

    found = Activity.load(path)
    rewards = found.get("rewards")
    about = {key: value for key, value in found.about.items() if key not in ("format", "version")}
    described = {
        "steps": found.steps,
        "episodes": int(found.episode_starts.sum()),
        "reward": None if rewards is None else float(rewards.sum()),
        "currents_known": found.currents_are_known,
        "time_constants_known": found.time_constants_are_known,
        "wiring": network.describe_wiring(found.wiring),
        "about": about,
    }
    return described, found.wiring


def show(found: Described, wiring: Wiring) -> None:
    """Prints what `describe` returned."""
    rows = [("recording", f"{found['steps']:,} steps, {found['episodes']} episode{'s' * (found['episodes'] != 1)}")]
    if found["reward"] is not None:
        rows.append(("reward", f"{found['reward']:,.1f}"))
    for name in ("currents", "time constants"):
        if not found[f"{name.replace(' ', '_')}_known"]:
            rows.append((name, "not known"))
    facts.show([*rows, *facts.rows_of(found["about"])])
    print(f"\nits circuit: {wiring.summary()}")
