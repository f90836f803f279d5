"""One file for a trained network: a safetensors file with its weights, and its cell and wiring as JSON metadata.

Loading it runs no code from the file and unpickles nothing. The metadata holds::

    format   "ncp_control.rnn"
    version  "1"
    package  the version of ncp_control that wrote the file
    config   the cell's class and settings, as JSON
    wiring   the wiring, as JSON
    note     anything that the writer added, as JSON
    sha256   a checksum over all of the above and every weight, which shows damage (it is not a signature)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.notes import read_note, read_object, write_note
from ncp_control.base.tensors import CheckpointError, building, described_in, read_tensors, write_tensors
from ncp_control.neurons import Cell, cell_config, cell_from_config
from ncp_control.neurons.parameters import check_plain
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring

__all__ = ["CheckpointError", "load", "read_metadata", "save"]

FORMAT = "ncp_control.rnn"
VERSION = 1
DESCRIBED = ("config", "wiring", "note")


def save(rnn: RNN, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes `rnn` to one safetensors file.

    :param rnn: the network, on any device
    :param path: the file, such as "policy.safetensors"; if it exists, it is replaced as a whole
    :param note: anything worth keeping with the weights (command, seed, score), as JSON values
    """
    if not isinstance(rnn, RNN):
        raise TypeError(f"save writes an RNN, got {type(rnn).__name__}: wrap a cell as RNN(cell)")
    check_plain(rnn.cell)  # a weight that is computed from others, as by pruning, could not be read back
    described = {
        "config": json.dumps(cell_config(rnn.cell)),
        "wiring": rnn.wiring.to_json(),
        "note": write_note(note),
    }
    write_tensors(path, FORMAT, VERSION, described, rnn.state_dict())


def load(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> RNN:
    """Reads a network that `save` wrote, and refuses a file that was truncated, altered or written by something else.

    :param path: the file
    :param device: the device to put the network on
    :param backend: as in `RNN`
    :param cells: classes of your own that the file can name
    """
    metadata, weights = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.save")
    with building(path, "a network that cannot be built"):
        wiring = Wiring.from_json(metadata["wiring"])
        rnn = RNN(cell_from_config(read_object(metadata["config"]), wiring, cells), backend)
    dtypes = {value.dtype for value in weights.values() if value.is_floating_point()}
    if len(dtypes) == 1:  # the type of the network that was saved; the one here has torch's default
        rnn.to(dtypes.pop())
    try:
        rnn.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{path} has weights that do not fit its cell and wiring: {error}") from error
    return rnn.to(device)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Returns the metadata of a checkpoint: format, version, package, config, wiring (as JSON), note and sha256."""
    metadata, _ = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.save")
    with described_in(path, "a network that cannot be built"):
        return {**metadata, "config": read_object(metadata["config"]), "note": read_note(metadata["note"])}
