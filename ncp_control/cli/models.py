"""Policies and models from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def name_of(path: Path) -> str:
    """Returns how pages name what is in a file. A run calls its best `best`, and its folder says which run it was."""
    path = path.resolve()
    return path.parent.name if path.stem == "best" else path.stem


def read_model(paths: Sequence[Path]) -> Any:
    """Reads a model; several files become one ensemble of all their members."""
    from ncp_control.dynamics import Ensemble, load_model

    models: list[Any] = [load_model(path) for path in paths]
    if len(models) == 1:
        return models[0]
    return Ensemble(
        [member for model in models for member in (model.models if isinstance(model, Ensemble) else [model])]
    )
