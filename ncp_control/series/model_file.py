"""One safetensors file for a model of series; loading it runs no code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.notes import read_note, read_object, write_note
from ncp_control.base.tensors import building, read_tensors, write_tensors
from ncp_control.neurons import Cell, named_cell
from ncp_control.neurons.named import IN_FILES
from ncp_control.series.model import SeriesModel
from ncp_control.wiring import Wiring

FORMAT, VERSION, DESCRIBED = "ncp_control.series", 1, ("model", "note")
SCALES = ("mean", "std", "target_mean", "target_std")
NAMES = ("inputs", "targets", "classes")


def save_series_model(model: SeriesModel, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes a model.

    :param path: the file, such as "walks.safetensors"; an existing file is replaced
    :param note: anything worth keeping with the model (data, seed, error), as JSON values
    """
    if not isinstance(model, SeriesModel):
        raise TypeError(f"save_series_model writes a SeriesModel, got {type(model).__name__}")
    described = {"model": json.dumps(model.about()), "note": write_note(note)}
    write_tensors(path, FORMAT, VERSION, described, model.state_dict())


def load_series_model(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> SeriesModel:
    """Reads a model that `save_series_model` wrote; the note is in its attribute `note`.

    :param device: the device that the model is moved to
    :param backend: as in `RNN`
    :param cells: classes of your own that the file may name
    """
    writer = "ncp_control.series.save_series_model"
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, writer)
    with building(path, "a model that cannot be built"):
        described = read_object(metadata["model"])
        settings = dict(described["cell"])
        for name in NAMES:
            if not isinstance(described[name], list) or not all(isinstance(entry, str) for entry in described[name]):
                raise ValueError(f"its {name} should be a list of names")
        arguments: dict[str, Any] = {name: tensors[name].double().numpy() for name in SCALES}
        for name in (*NAMES, "whole", "flagged", "timed", "time_unit", "clip"):
            arguments[name] = described[name]
        model = SeriesModel(
            named_cell(settings.pop("cell"), tuple(cells), IN_FILES),
            Wiring.from_json(json.dumps(described["wiring"])),
            **arguments,
            settings=settings,
            backend=backend,
        )
        model.load_state_dict(tensors)
        model.note = read_note(metadata["note"])
        return model.to(device).eval()
