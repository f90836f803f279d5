"""`ncp-control describe` for a model of the dynamics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Described = dict[str, Any]


def describe(path: Path) -> Described:
    """Cells, sizes, inputs and note of a model or an ensemble, as JSON values."""
    from ncp_control.dynamics import DynamicsModel, Ensemble, load_model

    model = load_model(path)
    members = model.models if isinstance(model, Ensemble) else [model]
    cells = []
    for member in members:
        assert isinstance(member, DynamicsModel)
        about = member.about()
        wiring = about["wiring"]
        units = wiring if isinstance(wiring, int) else member.rnn.wiring.units
        cells.append({"cell": about["cell"]["cell"], "units": units, "residual": about["residual"]})
    return {
        "members": cells,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "observations": list(model.observation_names),
        "actions": model.actions,
        "timed": model.timed,
        "note": model.note,
    }


def show(found: Described) -> None:
    """What `describe` found, for the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for member in found["members"]:
        predicts = "the change" if member["residual"] else "the next observation"
        facts.add_row("model", f"{member['cell']}, {member['units']} neurons, predicts {predicts}")
    facts.add_row("parameters", f"{found['parameters']:,}")
    facts.add_row("observations", f"{len(found['observations'])}: {escape(', '.join(found['observations']))}")
    facts.add_row("actions", str(found["actions"]) if found["actions"] else "none are read")
    facts.add_row("time", "irregular" if found["timed"] else "regular")
    for key, value in found["note"].items():
        facts.add_row(escape(str(key)), escape(str(value)))
    Console(highlight=False).print(facts)
