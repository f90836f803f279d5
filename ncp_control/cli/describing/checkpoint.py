"""`ncp-control describe` for the checkpoint of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network
from ncp_control.wiring import Wiring

Described = dict[str, Any]


def describe(path: Path) -> tuple[Described, Wiring]:
    """Describes a network's wiring, cell and bounds as JSON values; returns the wiring too."""
    from ncp_control.checkpoint import load, read_metadata

    metadata, rnn = read_metadata(path), load(path)
    written = {"by": f"ncp-control {metadata['package']}", "format": metadata["version"], "note": metadata["note"]}
    about = {**network.describe_rnn(rnn), "written": written}
    return {"wiring": network.describe_wiring(rnn.wiring), "checkpoint": about}, rnn.wiring


def show(description: Described, wiring: Wiring) -> None:
    """Prints a description in the terminal."""
    checkpoint = description["checkpoint"]
    written = checkpoint["written"]
    print(f"{wiring.summary()}\n")
    facts.show(
        [
            *network.rows_of(checkpoint),
            ("written by", f"{written['by']}, format {written['format']}"),
            *facts.rows_of(written["note"] or {}),
        ]
    )
    network.show_bounds(checkpoint)
