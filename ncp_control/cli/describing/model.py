"""`ncp-control describe` for a model of the dynamics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network

Described = dict[str, Any]


def describe(path: Path) -> Described:
    """Returns the cells, sizes, features and note of a model or an ensemble, as JSON values."""
    from ncp_control.dynamics import DynamicsModel, Ensemble, load_model

    model = load_model(path)
    members = model.models if isinstance(model, Ensemble) else [model]
    cells = []
    for member in members:
        assert isinstance(member, DynamicsModel)
        circuit = network.describe_circuit(member.rnn)
        member_values = {"cell": circuit["cell"], "units": member.rnn.wiring.units, "residual": member.residual}
        cells.append({**member_values, "circuit": circuit})
    return {
        "members": cells,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "observations": list(model.observation_names),
        "actions": model.action_size,
        "action_names": list(model.action_names),
        "timed": model.timed,
        "note": model.note,
    }


def show(description: Described) -> None:
    """Prints what `describe` found."""
    rows = []
    for member in description["members"]:
        predicts = "the change" if member["residual"] else "the next observation"
        rows.append(("model", f"{member['cell']}, {member['units']} neurons, predicts {predicts}"))
    rows += [
        ("parameters", f"{description['parameters']:,}"),
        ("observations", numbered(description["observations"])),
        ("actions", numbered(description["action_names"]) if description["actions"] else "none are read"),
        ("time", "irregular" if description["timed"] else "regular"),
        *facts.rows_of(description["note"]),
    ]
    facts.show(rows)
    if len(description["members"]) == 1:
        circuit = description["members"][0]["circuit"]
        print()
        facts.show(network.rows_of(circuit))
        network.show_bounds(circuit)


def numbered(names: list[str]) -> str:
    """Returns how many names there are, and the names."""
    return f"{len(names)}: {', '.join(names)}"
