"""`ncp-control describe` for a recorded rollout."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network
from ncp_control.wiring import Wiring

Described = dict[str, Any]


def is_recording(path: Path) -> bool:
    """Whether it is what `ncp-control record` wrote, rather than a trace of a body."""
    if path.suffix != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"about.npy", "wiring.npy"} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def describe(path: Path) -> tuple[Described, Wiring]:
    """Length, reward, circuit and origin of a recording, as JSON values; and the circuit's wiring."""
    from ncp_control.activity.recording.activity import Activity

    found = Activity.load(path)
    rewards = found.get("rewards")
    about = {key: value for key, value in found.about.items() if key not in ("format", "version")}
    described = {
        "steps": found.steps,
        "episodes": int(found.episode_starts.sum()),
        "reward": None if rewards is None else float(rewards.sum()),
        "wiring": network.describe_wiring(found.wiring),
        "about": about,
    }
    return described, found.wiring


def show(found: Described, wiring: Wiring) -> None:
    """What `describe` found, for the terminal."""
    rows = [("recording", f"{found['steps']:,} steps, {found['episodes']} episode{'s' * (found['episodes'] != 1)}")]
    if found["reward"] is not None:
        rows.append(("reward", f"{found['reward']:,.1f}"))
    facts.show([*rows, *facts.rows_of(found["about"])])
    print(f"\nits circuit: {wiring.summary()}")
