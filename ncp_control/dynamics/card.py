"""The facts, the example and the results on a fitted model's card."""

from __future__ import annotations

from pathlib import Path

from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import checksum_of, load_model
from ncp_control.dynamics.simulator import Simulator
from ncp_control.storage.cards import card_text, duration, origin_of, table
from ncp_control.support.text import markdown, markdown_code

MEANING = """\
Squared errors on the test rollouts, divided by the variances of the observations. The column "next" has the error
for the next observation. The other columns have the errors of predictions that look so many steps ahead without
further observations, averaged over their starts."""


def model_card(path: Path, description: str) -> str:
    """Returns the card of a model, from the note in its file.

    The note has `command`, `seed`, `seconds` and `versions` of the fit; `collected`, the command that made the
    rollouts; `steps`, of training data; `horizons`; and `rows`, each with `name`, `one_step` and `errors`, one error or
    None for every horizon.

    :param path: the `.safetensors` file
    :param description: a sentence or two on what the model is and what it is for
    """
    model = load_model(path)
    note = model.note
    actions = f" and {model.action_size} actions" if model.action_size else ""
    facts = [
        ("model", model_in_words(model)),
        ("reads", f"{model.features} observations{actions}"),
        ("rollouts", markdown_code(note["collected"])),
        ("fitted by", markdown_code(note["command"])),
        ("seed, steps of training data", f"{note['seed']}, {note['steps']:,}"),
        ("fitting", duration(note["seconds"])),
        *origin_of(path, checksum_of(path), note),
    ]
    example = f"""from ncp_control.dynamics import load_model

model = load_model("checkpoints/{path.name}")
future = model.predict(history, horizon, actions)  # (B, T, n), H and (B, T + H - 1, m) to (B, H, n)"""
    head = ("", "next", *(f"{k} steps" if k > 1 else "1 step" for k in note["horizons"]))
    rows = [
        (
            markdown(row["name"]),
            f"{row['one_step']:.4f}",
            *("" if error is None else f"{error:.3f}" for error in row["errors"]),
        )
        for row in note["rows"]
    ]
    return card_text(path, description, facts, example, f"{MEANING}\n\n{table(head, rows)}")


def model_in_words(model: Simulator) -> str:
    """Returns a model's cell, its numbers of neurons and parameters, and what it predicts."""
    first = model.models[0] if isinstance(model, Ensemble) else model
    assert isinstance(first, DynamicsModel)
    about = first.about()
    units = about["wiring"] if isinstance(about["wiring"], int) else first.rnn.wiring.units
    members = f"{len(model.models)} times " if isinstance(model, Ensemble) else ""
    size = sum(parameter.numel() for parameter in model.parameters())
    predicts = "change of the observations" if first.residual else "next observation"
    return f"{members}{about['cell']['cell']}, {units} neurons, {size:,} parameters; predicts the {predicts}"
