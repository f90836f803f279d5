"""`ncp-control describe` for a model of series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network

Described = dict[str, Any]


def describe(path: Path) -> Described:
    """Returns the cell, the columns, the classes and the note of a model, as JSON values."""
    from ncp_control.series import load_series_model

    model = load_series_model(path)
    return {
        "circuit": network.describe_circuit(model.rnn),
        "units": model.rnn.wiring.units,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "inputs": list(model.inputs),
        "flagged": [name for name, flag in zip(model.inputs, model.flagged, strict=True) if flag],
        "targets": list(model.targets),
        "classes": list(model.classes),
        "whole": model.whole,
        "timed": model.timed,
        "time_unit": model.time_unit,
        "note": model.note,
    }


def show(found: Described) -> None:
    """Prints what `describe` found."""
    of = "each whole series" if found["whole"] else "each row"
    what = f"one of {len(found['classes'])} classes" if found["classes"] else "numbers"
    facts.show(
        [
            ("model", f"{found['circuit']['cell']}, {found['units']} neurons, tells {what} of {of}"),
            ("parameters", f"{found['parameters']:,}"),
            ("reads", ", ".join(found["inputs"])),
            ("may be missing", ", ".join(found["flagged"]) or "no column"),
            ("tells", ", ".join(found["targets"])),
            *([("classes", ", ".join(found["classes"]))] if found["classes"] else []),
            ("time", f"irregular, in units of {found['time_unit']:.4g}" if found["timed"] else "regular"),
            *facts.rows_of(found["note"]),
        ]
    )
    print()
    facts.show(network.rows_of(found["circuit"]))
    network.show_bounds(found["circuit"])
