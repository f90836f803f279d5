"""One file for a trained network: weights as safetensors, and cell, wiring and settings as JSON beside them.

Loading runs no code from the file and unpickles nothing. The metadata of the safetensors file holds::

    format   "ncp_control.rnn"
    version  "1"
    package  version of ncp_control that wrote it
    config   the cell's class and settings, JSON
    wiring   the wiring, JSON
    note     anything the writer added, JSON
    sha256   checksum of all of the above and of every weight: damage is noticed (it is no signature)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ncp_control.cells import Cell, cell_config, cell_from_config
from ncp_control.rnn import RNN
from ncp_control.storage.descriptions import building, described_in, read_object
from ncp_control.storage.safe_tensors import CheckpointError, read_tensors, write_tensors
from ncp_control.wiring import Wiring

__all__ = ["CheckpointError", "load", "read_metadata", "save"]

FORMAT = "ncp_control.rnn"
VERSION = 1
DESCRIBED = ("config", "wiring", "note")


def save(rnn: RNN, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes `rnn` to one safetensors file.

    :param rnn: the network, on any device
    :param path: the file, such as "policy.safetensors"; replaced whole if it exists
    :param note: anything worth keeping with it (command, seed, score), as JSON values
    """
    if not isinstance(rnn, RNN):
        raise TypeError(f"save writes an RNN, got {type(rnn).__name__}: wrap a cell as RNN(cell)")
    described = {
        "config": json.dumps(cell_config(rnn.cell)),
        "wiring": rnn.wiring.to_json(),
        "note": json.dumps(note or {}),
    }
    write_tensors(path, FORMAT, VERSION, described, rnn.state_dict())


def load(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> RNN:
    """Reads a network that `save` wrote; a file that is truncated, altered or foreign is refused.

    :param path: the file
    :param device: where the network goes
    :param backend: as in `RNN`
    :param cells: classes of your own that the file may name
    """
    metadata, weights = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.save")
    with building(path, "a network that cannot be built", weights):
        wiring = Wiring.from_json(metadata["wiring"])
        rnn = RNN(cell_from_config(read_object(metadata["config"]), wiring, cells), backend)
    dtypes = {value.dtype for value in weights.values() if value.is_floating_point()}
    if len(dtypes) == 1:
        rnn.to(dtypes.pop())
    try:
        rnn.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{path} has weights that do not fit its cell and wiring: {error}") from error
    return rnn.to(device)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says of itself: format, version, package, config, wiring (JSON), note, sha256."""
    metadata, _ = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.save")
    with described_in(path, "a network that cannot be built"):
        return {**metadata, "config": read_object(metadata["config"]), "note": read_object(metadata["note"])}
