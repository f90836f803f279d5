"""Models of the dynamics from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_model(paths: Sequence[Path]) -> Any:
    """Reads a model; of several files, all members of all of them as one ensemble."""
    from ncp_control.dynamics import Ensemble, load_model

    found: list[Any] = [load_model(path) for path in paths]
    if len(found) == 1:
        return found[0]
    return Ensemble([one for model in found for one in (model.models if isinstance(model, Ensemble) else [model])])
