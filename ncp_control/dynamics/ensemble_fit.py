"""Fits an ensemble: the same model from several seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.machine import pick_device
from ncp_control.base.ranks import joined
from ncp_control.data import Split
from ncp_control.dynamics.confidence import calibrate
from ncp_control.dynamics.earlier_files import noted_split
from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.fit_loop import Fitted
from ncp_control.dynamics.fitting import fit
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import save_model
from ncp_control.dynamics.settings import FitSettings
from ncp_control.runs.run import BEST, seed_of


def make_seeded(make: Callable[[], DynamicsModel], seed: int) -> DynamicsModel:
    """Makes a model whose first weights follow from the seed, and leaves torch's own random state as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def fit_ensemble(
    make: Callable[[], DynamicsModel],
    parts: Split,
    settings: FitSettings,
    members: int,
    *,
    seed: int = 0,
    out: Path | None = None,
    note: dict[str, Any] | None = None,
    **arguments: Any,
) -> tuple[Ensemble, list[Fitted]]:
    """Fits members one after the other, each from its own seed, in `out/member-K`; then calibrates the ensemble's
    intervals on the validation part, and writes `out/best.safetensors`.

    :param make: makes a new model, with first weights drawn from torch's random state
    :param parts: the rollouts
    :param settings: how each member is fitted
    :param members: number of members
    :param seed: the members' seeds follow from it; the first one's is the seed itself
    :param out: a folder for this ensemble alone; None writes nothing
    :param note: kept in the files
    :param arguments: further arguments of `fit`
    """
    if members < 2:
        raise ValueError(f"an ensemble needs at least two members, got {members}")
    models, found = [], []
    for k in range(members):
        own = seed if k == 0 else seed_of(seed, 1_000_000 + k)
        model = make_seeded(make, own)
        folder = None if out is None else out / f"member-{k}"
        found.append(fit(model, parts, settings, seed=own, out=folder, note=note, **arguments))
        models.append(model)
    ensemble = Ensemble(models)
    progress = bool(arguments.get("progress", True))
    with joined(pick_device(arguments.get("device", "auto"))) as ranks:
        first = ranks.first
        ensemble.calibrations = ranks.from_first(lambda: calibrate(ensemble, parts.valid, progress=progress))
    if out is not None and first:
        save_model(ensemble, out / BEST, {**noted_split(parts), **(note or {}), "seed": seed, "members": members})
    return ensemble, found
