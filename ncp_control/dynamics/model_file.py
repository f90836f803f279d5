"""One safetensors file for a fitted model of the dynamics or an ensemble of them; loading it runs no code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncp_control.base.notes import read_note, write_note
from ncp_control.base.tensors import building, read_tensors, write_tensors
from ncp_control.data import Scaler
from ncp_control.dynamics.earlier_files import renamed
from ncp_control.dynamics.ensemble import Calibration, Ensemble
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.simulator import Simulator
from ncp_control.neurons import Cell, named_cell
from ncp_control.neurons.named import IN_FILES
from ncp_control.wiring import Wiring

FORMAT = "ncp_control.dynamics"
VERSION = 1
DESCRIBED = ("models", "ensemble", "note")
CALIBRATION = ("horizons", "floor", "factor")  # of each question, with which the names of these tensors end
SCALES = ("mean", "std", "change", "action_mean", "action_std", "starts")


def save_model(model: Simulator, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes a model or an ensemble.

    :param path: the file, such as "cheetah.safetensors"; an existing file is replaced
    :param note: anything worth keeping with the model (data, seed, error), as JSON values
    """
    if not isinstance(model, DynamicsModel | Ensemble):
        raise TypeError(f"save_model writes a DynamicsModel or an Ensemble, got {type(model).__name__}")
    members = model.models if isinstance(model, Ensemble) else [model]
    tensors = {f"{k}.{name}": value for k, one in enumerate(members) for name, value in one.state_dict().items()}
    calibrations = model.calibrations if isinstance(model, Ensemble) else {}
    for question, one in calibrations.items():
        tensors |= {f"calibration.{question}.{name}": torch.as_tensor(getattr(one, name)) for name in CALIBRATION}
    described = {
        "models": json.dumps([one.about() for one in members]),
        "ensemble": json.dumps(isinstance(model, Ensemble)),
        "note": write_note(note),
    }
    write_tensors(path, FORMAT, VERSION, described, tensors)


def load_model(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> Simulator:
    """Reads a `DynamicsModel` or an `Ensemble` that `save_model` wrote; the note is in its attribute `note`.

    :param device: the device that the model is moved to
    :param backend: as in `RNN`
    :param cells: classes of your own that the file may name
    """
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.dynamics.save_model")
    with building(path, "a model that cannot be built"):
        described, own = json.loads(metadata["models"]), tuple(cells)
        members = [build(one, k, tensors, backend, own) for k, one in enumerate(described)]
        model: Simulator = members[0]
        if json.loads(metadata["ensemble"]):
            model = Ensemble(members, read_calibrations(tensors))
        model.note = read_note(metadata["note"])
        return model.to(device).eval()


def read_calibrations(tensors: dict[str, torch.Tensor]) -> dict[str, Calibration]:
    """Returns an ensemble's calibrations; a file of an earlier version has none."""
    questions = [key.split(".")[1] for key in tensors if key.startswith("calibration.") and key.endswith(".floor")]
    return {
        renamed(question): Calibration(
            *(tensors[f"calibration.{question}.{name}"].double().numpy() for name in CALIBRATION)
        )
        for question in questions
    }


def checksum_of(path: str | Path) -> str:
    """Returns the SHA-256 of the description and the tensors in a file of `save_model`."""
    return read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.dynamics.save_model")[0]["sha256"]


def build(
    described: dict[str, Any],
    number: int,
    tensors: dict[str, torch.Tensor],
    backend: str,
    cells: Iterable[type[Cell]] = (),
) -> DynamicsModel:
    """Makes one model with its weights.

    :param described: its part of the description
    :param number: its number in the ensemble, with which the names of its tensors begin
    :param tensors: all tensors of the file
    """
    beginning = f"{number}."
    own = {name.removeprefix(beginning): value for name, value in tensors.items() if name.startswith(beginning)}
    settings, wiring = dict(described["cell"]), described["wiring"]
    cell = settings.pop("cell")
    scales = {name: own[name].double().numpy() for name in SCALES}
    one, other = scales["mean"].shape, scales["action_mean"].shape
    shapes = {"mean": one, "std": one, "change": one, "action_mean": other, "action_std": other}
    starts = scales["starts"].shape
    if any(scales[name].shape != shape for name, shape in shapes.items()) or starts[1:] != one or len(starts) != 2:
        raise ValueError(
            f"the shapes of its scales do not fit: {', '.join(f'{name} {scales[name].shape}' for name in SCALES)}"
        )
    model = DynamicsModel(
        named_cell(cell, cells, IN_FILES),
        wiring if isinstance(wiring, int) else Wiring.from_json(json.dumps(wiring)),
        scaler=Scaler(scales["mean"], scales["std"]),
        change_scaler=Scaler(np.zeros_like(scales["change"]), scales["change"]),
        action_scaler=Scaler(scales["action_mean"], scales["action_std"]) if scales["action_mean"].size else None,
        reads=described["inputs"],
        residual=described["residual"],
        timed=described["timed"],
        time_unit=described.get("time_unit", 1.0),  # which is written if it is not 1
        clip=described["clip"],
        settings=settings,
        observation_names=tuple(described["observation_names"]),
        # which the first files did not have
        action_names=tuple(described.get("action_names", ())),
        action_range=described.get("action_range"),
        starts=scales["starts"],
        backend=backend,
    )
    model.load_state_dict(own)
    return model
