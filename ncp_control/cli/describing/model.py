"""`ncp-control describe` for a model of the dynamics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network

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
        is_circuit = not isinstance(wiring, int)
        units = member.rnn.wiring.units if is_circuit else wiring
        circuit = network.describe_circuit(member.rnn) if is_circuit else None
        one = {"cell": about["cell"]["cell"], "units": units, "residual": about["residual"], "circuit": circuit}
        cells.append(one)
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
    rows = []
    for member in found["members"]:
        predicts = "the change" if member["residual"] else "the next observation"
        rows.append(("model", f"{member['cell']}, {member['units']} neurons, predicts {predicts}"))
    rows += [
        ("parameters", f"{found['parameters']:,}"),
        ("observations", f"{len(found['observations'])}: {', '.join(found['observations'])}"),
        ("actions", str(found["actions"]) if found["actions"] else "none are read"),
        ("time", "irregular" if found["timed"] else "regular"),
        *facts.rows_of(found["note"]),
    ]
    facts.show(rows)
    if len(found["members"]) == 1 and (circuit := found["members"][0]["circuit"]):
        print()
        facts.show(network.rows_of(circuit))
        network.show_bounds(circuit)
