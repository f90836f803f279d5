"""`fit`: fits a model to rollouts, in a folder from which the fit can be resumed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncp_control.data import Rollouts, Split, Windows
from ncp_control.dynamics.earlier_files import SERIES, described_in_0_1, is_record_of_0_1, noted_split
from ncp_control.dynamics.fit_loop import BEST, FitLoop, Fitted
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.settings import FitSettings
from ncp_control.storage.run_folder import RECORD, prepare_run, versions
from ncp_control.storage.safe_tensors import hash_of_tensors
from ncp_control.support.devices import pick_device
from ncp_control.support.progress import tracked

PACKAGES = ("ncp-control", "torch", "numpy")


def fit(
    model: DynamicsModel,
    rollouts: Rollouts | Split,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    command: str = "",
    note: dict[str, Any] | None = None,
    progress: bool = True,
    on_epoch: Callable[[int], None] | None = None,
) -> Fitted:
    """Fits a model to the training part, and gives it the weights that were best on the validation part.

    The order of the windows in an epoch follows from the seed and the epoch, so that a fit that was stopped and resumed
    ends with the same weights as one that was not. The validation error is the median over rollouts (see
    `robust_error`).

    The folder `out` receives `best.safetensors`, for `load_model`; `curve.csv`; `run.json`, the record; `board/`, if
    TensorBoard is installed; and `state.safetensors`, from which the fit can be resumed.

    :param model: a new model; see `DynamicsModel.of`
    :param rollouts: if they are not split yet, they are split here
    :param settings: how the model is fitted (see `FitSettings`)
    :param seed: the order of the windows follows from it
    :param out: a folder for this fit alone; None writes nothing
    :param resume: continue the fit in `out`, or start it if the folder holds none
    :param device: "auto" chooses a GPU if there is one
    :param command: kept in the record
    :param note: kept in the model's file
    :param progress: show a progress bar on stderr
    :param on_epoch: called after each epoch with the number of epochs done
    """
    settings = (settings or FitSettings()).of_cell(model.cell_name)
    parts = rollouts if isinstance(rollouts, Split) else rollouts.split()
    check(model, parts)
    data = {"steps": [part.steps for part in parts], **({SERIES: True} if parts.train.about.get(SERIES) else {})}
    short = sum(rollout.steps < settings.length for rollout in parts.train)
    if progress and 0 < short < len(parts.train):
        print(
            f"{short} of {len(parts.train)} training rollouts are shorter than a window of {settings.length} steps and "
            "are not used: a smaller length uses them",
            file=sys.stderr,
        )
    where = pick_device(device)
    train = Windows(parts.train, settings.length, settings.stride, device=where)
    valid = Windows(parts.valid, min(settings.length, longest(parts.valid)), 10, device=where)
    folder = None if out is None else Path(out)
    with ExitStack() as held:
        if folder is not None:
            about = {
                "model": recorded_model(model, in_0_1=resume and is_record_of_0_1(folder / RECORD)),
                "settings": asdict(settings), "seed": seed, "data": data,
                "threads": torch.get_num_threads(),
            }  # fmt: skip
            held.enter_context(prepare_run(folder, about, resume, command=command, versions=versions(PACKAGES)))
        tracker = held.enter_context(tracked("fitting", settings.epochs, unit="windows", shown=progress))
        noted = {**noted_split(parts), **(note or {})}
        loop = FitLoop(model.to(where), train, valid, settings, seed, folder, noted, tracker, on_epoch)
        try:
            loop.run()
        except KeyboardInterrupt:
            words = "its best weights are in the model"
            if folder is not None:
                words = f"--resume continues it, and the best weights are in {folder / BEST}"
            if loop.fitted.best is None:
                words = "nothing is kept yet"
            print(f"\ninterrupted after {len(loop.fitted.curve)} epochs: {words}", file=sys.stderr)
            raise
        finally:
            loop.finish()
    return loop.fitted


def recorded_model(model: DynamicsModel, in_0_1: bool = False) -> dict[str, Any]:
    """Returns what the record says of a model, which is enough to tell it from any other.

    :param in_0_1: describe an MLP on lags as version 0.1.0 did, which began this fit
    """
    found, weights = model.about(), model.state_dict()
    if in_0_1 and found["cell"]["cell"] == "LaggedMLP":
        found, weights = described_in_0_1(model)
    del found["action_range"]  # it belongs to the data, whose checksum is in the record, and is not fitted
    wiring = hashlib.sha256(json.dumps(found.pop("wiring")).encode()).hexdigest()
    return {**found, "wiring_sha256": wiring, "first_weights_sha256": hash_of_tensors(weights)}


def check(model: DynamicsModel, parts: Split) -> None:
    """Refuses rollouts to which the model cannot be fitted."""
    for name, part in zip(Split._fields, parts, strict=True):
        if part.features != model.features:
            raise ValueError(
                f"the {name} rollouts have {part.features} observations a step, and the model predicts {model.features}"
            )
        if model.action_size and part[0].actions is None:
            raise ValueError(f"the model reads actions, and the {name} rollouts have none")
        width = 0 if part[0].actions is None else int(np.prod(part[0].actions.shape[1:]))
        if model.action_size and width != model.action_size:
            raise ValueError(
                f"the {name} rollouts have {width} actions a step, and the model reads {model.action_size}"
            )


def longest(rollouts: Rollouts) -> int:
    """Returns the number of steps of the longest rollout."""
    return max(rollout.steps for rollout in rollouts)
