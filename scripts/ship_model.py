"""Makes a checkpoint and its card from a run of `ncp-control fit`, and evaluates it beside other models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from cards import model_card, write_card

from ncp_control.base.kinds import RECORD
from ncp_control.data import Rollouts, Scaler
from ncp_control.data.linear import linear_error
from ncp_control.dynamics import Ensemble, load_model, one_step_error, save_model
from ncp_control.dynamics.confidence import confidences
from ncp_control.dynamics.questions import ask
from ncp_control.runs.run import BEST

HORIZONS = (1, 5, 10, 20, 50, 100, 200)


@dataclass
class Arguments:
    """Make a checkpoint and its card from a fit.

    Example: python scripts/ship_model.py runs/halfcheetah-dynamics checkpoints/halfcheetah-dynamics.safetensors \\
        --data ./cheetah-bursts-v0 --test ./cheetah-v0
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of the fit, which may be one of an ensemble."""

    out: Annotated[Path, tyro.conf.Positional]
    """The checkpoint; the card is written beside it and ends in .md."""

    data: str
    """The rollouts that the model was fitted to."""

    test: str
    """Other rollouts, all of which are predicted."""

    collected: str
    """The command that collected them."""

    tested: str
    """The command that collected the others."""

    beside: tuple[Path, ...] = ()
    """Other fits to the same rollouts, for the card's table."""

    description: str = "A model of the half-cheetah's dynamics."
    """A sentence or two on what the model is and what it is for."""


def main() -> None:
    """Evaluates the models and writes the checkpoint and the card."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    train, test = Rollouts.load(arguments.data).split().train, Rollouts.load(arguments.test)
    model = load_model(arguments.run / BEST)
    scale = Scaler.fit(test).std
    rows: list[dict[str, Any]] = []
    known: dict[str, Any] = {}
    for folder in (arguments.run, *arguments.beside):
        one = load_model(folder / BEST)
        answers = ask(one, test, HORIZONS[-1])
        if folder == arguments.run:
            known = {key: found.as_values(HORIZONS) for key, found in confidences(one, answers).items()}
        name = "this model" if folder == arguments.run else folder.name
        rows.append(
            {
                "name": name,
                "one_step": one_step_error(one, test, scale=torch.as_tensor(scale, dtype=torch.float32)),
                "answers": answers.rows(HORIZONS),
            }
        )
        still, level = answers.recorded.persistence, answers.recorded.level
    actions = model.action_size > 0
    rows += [
        {"name": "linear, five lags", "one_step": linear_error(train, test, 5, actions, scale)},
        {"name": "nothing changes", "one_step": float(still[0]), "errors": [float(still[k - 1]) for k in HORIZONS]},
        {"name": "always the mean", "one_step": level, "errors": [level] * 7},
    ]
    folders = sorted(arguments.run.glob("member-*")) if isinstance(model, Ensemble) else [arguments.run]
    records = [json.loads((folder / RECORD).read_text(encoding="utf-8")) for folder in folders]
    note = {
        **{key: value for key, value in model.note.items() if key in ("seed", "epoch", "valid", "members")},
        "command": records[0]["command"].removesuffix(" --json"),
        "versions": records[0]["versions"],
        "collected": arguments.collected,
        "tested": arguments.tested,
        "steps": train.steps,
        "seconds": sum(seconds_of(folder) for folder in folders),
        "horizons": list(HORIZONS),
        "rows": rows,
        **({"confidence": known} if known else {}),
    }
    save_model(model, arguments.out, note)
    write_card(arguments.out, model_card(arguments.out, arguments.description))
    print(f"{arguments.out}: one step {rows[0]['one_step']:.4f} of the variance")


def seconds_of(folder: Path) -> float:
    """Returns how long a fit took."""
    from ncp_control.base.tensors import read_tensors
    from ncp_control.dynamics.fit_loop import DESCRIBED, FORMAT, VERSION
    from ncp_control.runs.run import STATE

    metadata, _ = read_tensors(folder / STATE, FORMAT, VERSION, DESCRIBED, "ncp-control fit")
    return float(json.loads(metadata["state"])["seconds"])


if __name__ == "__main__":
    main()
