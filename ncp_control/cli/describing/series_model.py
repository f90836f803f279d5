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


def show(description: Described) -> None:
    """Prints what `describe` found."""
    of = "each whole series" if description["whole"] else "each row"
    what = f"one of {len(description['classes'])} classes" if description["classes"] else "numbers"
    facts.show(
        [
            ("model", f"{description['circuit']['cell']}, {description['units']} neurons, predicts {what} of {of}"),
            ("parameters", f"{description['parameters']:,}"),
            ("reads", ", ".join(description["inputs"])),
            ("may be missing", ", ".join(description["flagged"]) or "no column"),
            ("predicts", ", ".join(description["targets"])),
            *([("classes", ", ".join(description["classes"]))] if description["classes"] else []),
            ("time", f"irregular, in units of {description['time_unit']:.4g}" if description["timed"] else "regular"),
            *facts.rows_of(description["note"]),
        ]
    )
    print()
    facts.show(network.rows_of(description["circuit"]))
    network.show_bounds(description["circuit"])
