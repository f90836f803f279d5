"""Policies and models from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncp_control.base.text import shown


def check_columns(model: Any, path: Path, rollouts: Any, data: str) -> None:
    """Refuses rollouts whose observations or actions have other names than those that a model was fitted to, or
    another order. Names that nobody has given, such as "observation 0", fit every other.
    """
    from ncp_control.data.rollouts import usual_names

    names = [("predicts", model.observation_names, rollouts.observation_names)]
    if model.action_size:
        names.append(("reads", model.action_names, rollouts.action_names))
    for verb, own, others in names:
        kind = "observation" if verb == "predicts" else "action"
        if any(side == usual_names(len(side), kind) for side in (own, others)):
            continue
        if own != others:
            raise ValueError(
                f"{path} {verb} {', '.join(map(shown, own))}, and {data} has {', '.join(map(shown, others))} there: "
                "give the same columns in the same order"
            )


def read_model(paths: Sequence[Path]) -> Any:
    """Reads a model; several files become one ensemble of all their members."""
    from ncp_control.dynamics import Ensemble, load_model

    models: list[Any] = [load_model(path) for path in paths]
    if len(models) == 1:
        return models[0]
    return Ensemble(
        [member for model in models for member in (model.models if isinstance(model, Ensemble) else [model])]
    )
