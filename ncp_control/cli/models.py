"""Policies and models from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_model(paths: Sequence[Path]) -> Any:
    """Reads a model; several files become one ensemble of all their members."""
    from ncp_control.dynamics import Ensemble, load_model

    models: list[Any] = [load_model(path) for path in paths]
    if len(models) == 1:
        return models[0]
    return Ensemble(
        [member for model in models for member in (model.models if isinstance(model, Ensemble) else [model])]
    )
