"""The card of a fitted model: what it is, how good, and the command that made it, as Markdown beside its file."""

from __future__ import annotations

from pathlib import Path

from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import checksum_of, load_model
from ncp_control.storage.atomic_writes import write_atomically


def write_card(path: Path, description: str) -> None:
    """Writes the card of a model's file beside it, from the note in it.

    The note has `command`, `collected` (the command that made the rollouts), `seed`, `seconds`, `versions`, `steps` (of
    training data), `one_step` and `rows` (name, one-step error, errors at a few horizons), `horizons`.

    :param path: of the `.safetensors` file
    :param description: a sentence or two, what it is and what for
    """
    write_atomically(path.with_suffix(".md"), card(path, description).encode())


def card(path: Path, description: str) -> str:
    """The card's text."""
    model = load_model(path)
    note = model.note
    first = model.models[0] if isinstance(model, Ensemble) else model
    assert isinstance(first, DynamicsModel)
    about = first.about()
    units = about["wiring"] if isinstance(about["wiring"], int) else first.rnn.wiring.units
    members = f"{len(model.models)} times " if isinstance(model, Ensemble) else ""
    size = sum(parameter.numel() for parameter in model.parameters())
    predicts = "change of the observations" if first.residual else "next observation"
    facts = [
        ("model", f"{members}{about['cell']['cell']}, {units} neurons, {size:,} parameters; predicts the {predicts}"),
        ("reads", f"{model.features} observations" + (f" and {model.actions} actions" if model.actions else "")),
        ("rollouts", f"`{note['collected']}`"),
        ("fitted by", f"`{note['command']}`"),
        ("seed, steps of training data", f"{note['seed']}, {note['steps']:,}"),
        ("fitting", f"{note['seconds'] / 60:.0f} minutes, one thread"),
        ("versions", ", ".join(f"{name} {found}" for name, found in note["versions"].items())),
        ("file", f"{path.stat().st_size / 1e6:.2f} MB, SHA-256 of its content {checksum_of(path)[:16]}..."),
    ]
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts)
    horizons = note["horizons"]
    head = " | ".join(f"{k} steps" if k > 1 else "1 step" for k in horizons)
    cells = [
        (row["name"], f"{row['one_step']:.4f}", *("" if error is None else f"{error:.3f}" for error in row["errors"]))
        for row in note["rows"]
    ]
    errors = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    return f"""# {path.name.removesuffix(".safetensors")}

{description}

| | |
|---|---|
{rows}

```python
from ncp_control.dynamics import load_model

model = load_model("checkpoints/{path.name}")
future = model.predict(history, horizon, actions)  # (B, T, n), H and (B, T + H - 1, m) to (B, H, n)
```

Squared errors on the test rollouts, over the variances of the observations: of the next observation, and so many steps
without looking, in the mean over starts:

| | next | {head} |
|---|---|{"---|" * len(horizons)}
{errors}
"""
