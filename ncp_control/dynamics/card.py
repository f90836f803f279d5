"""The facts, the example and the results on a fitted model's card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.base.notes import card_text, duration, origin_of, table
from ncp_control.base.text import markdown, markdown_code
from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import checksum_of, load_model
from ncp_control.dynamics.simulator import Simulator

MEANING = """\
Squared errors over the variances of the observations, on rollouts that the model has not seen, in the mean and, in
parentheses, in the median over their starts. The column "next" has the error of the next observation. The other columns
are so many steps ahead without looking: *recorded* after the actions that were recorded, *foreign* after those of other
rollouts, executed in the simulator from the same states. *Simulator* is MuJoCo itself, started with errors as large as
the model's own one step ahead."""

CONFIDENCE = """\
How well the ensemble knows its own errors: the rank correlation of its members' disagreement and the error, over starts
and the horizons above; the share of steps within the 90 % interval of `predict_interval`; and the number of steps ahead
before the squared error of the median start reaches a tenth of the variance, as the ensemble expects and in truth."""

QUESTIONS = {
    "recorded": "",
    "simulator, recorded": "floor_",
    "foreign": "foreign_",
    "simulator, foreign": "foreign_floor_",
}


def model_card(path: Path, description: str) -> str:
    """Returns the card of a model, from the note in its file.

    The note has `command`, `seed`, `seconds` and `versions` of the fit; `collected` and `tested`, the commands that
    made the rollouts; `steps`, of training data; `horizons`; and `rows`, each with `name` and `one_step` and, for every
    horizon, one of `answers`, as `Answers.rows` returns them, or of `errors`, if there are any.
    For an ensemble it also has `confidence`: for each question, what `Confidence.as_values` returns.

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
        ("predicted rollouts", markdown_code(note["tested"])),
        ("fitted by", markdown_code(note["command"])),
        ("seed, steps of training data", f"{note['seed']}, {note['steps']:,}"),
        ("fitting", duration(note["seconds"])),
        *origin_of(path, checksum_of(path), note),
    ]
    example = f"""from ncp_control.dynamics import load_model

model = load_model("checkpoints/{path.name}")
future = model.predict(history, horizon, actions)  # (B, T, n), H and (B, T + H - 1, m) to (B, H, n)"""
    horizons = tuple(f"{k} steps" if k > 1 else "1 step" for k in note["horizons"])
    rows = [line for row in note["rows"] for line in lines_of(row, len(horizons))]
    results = f"{MEANING}\n\n{table(('', 'next', *horizons), rows)}"
    if note.get("confidence"):
        head = ("actions", "correlation", "within the interval", "believed", "in truth")
        lines = [confidence_line(name, one) for name, one in note["confidence"].items()]
        results += f"\n\n{CONFIDENCE}\n\n{table(head, lines)}"
    return card_text(path, description, facts, example, results)


def confidence_line(question: str, found: dict[str, Any]) -> tuple[str, ...]:
    """Returns the line of the table about an ensemble's knowledge of its errors."""
    known = found["within"] is not None
    within, believed = (f"{found['within']:.0%}", f"{found['believed']} steps") if known else ("unknown", "unknown")
    return (question, f"{found['correlation']:.2f}", within, believed, f"{found['believable']} steps")


def lines_of(row: dict[str, Any], horizons: int) -> list[tuple[str, ...]]:
    """Returns the lines of the table about one model: what it was asked, and what the simulator answered."""
    name, of_next = markdown(row["name"]), f"{row['one_step']:.4f}"
    if "answers" not in row:
        errors = row.get("errors", [None] * horizons)
        return [(name, of_next, *("" if error is None else f"{error:.3f}" for error in errors))]
    found = []
    for title, key in QUESTIONS.items():
        known = [(one[f"{key}mean"], one[f"{key}median"]) for one in row["answers"]]
        if None not in known[0]:
            cells = (f"{mean:.3f} ({median:.3f})" for mean, median in known)
            found.append((f"{name}, {title}", "" if key else of_next, *cells))
    return found


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
