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

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from ncp_control._version import __version__
from ncp_control.cells import Cell, cell_config, cell_from_config
from ncp_control.files import write_atomically
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring, WiringError

FORMAT = "ncp_control.rnn"
VERSION = 1
DESCRIBED = ("format", "version", "package", "config", "wiring", "note")


class CheckpointError(ValueError):
    """A file that is not a checkpoint, or no longer the one that was written."""


def save(rnn: RNN, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes `rnn` to one safetensors file.

    :param rnn: the network, on any device
    :param path: the file, such as "policy.safetensors"; replaced whole if it exists
    :param note: anything worth keeping with it (command, seed, score), as JSON values
    """
    if not isinstance(rnn, RNN):
        raise TypeError(f"save writes an RNN, got {type(rnn).__name__}: wrap a cell as RNN(cell)")
    weights = {name: value.detach().cpu().contiguous() for name, value in rnn.state_dict().items()}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "package": __version__,
        "config": json.dumps(cell_config(rnn.cell)),
        "wiring": rnn.wiring.to_json(),
        "note": json.dumps(note or {}),
    }
    metadata["sha256"] = _checksum(metadata, weights)
    write_atomically(path, to_safetensors(weights, metadata))


def load(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> RNN:
    """Reads a network that `save` wrote; a file that is truncated, altered or foreign is refused.

    :param path: the file
    :param device: where the network goes
    :param backend: as in `RNN`
    :param cells: classes of your own that the file may name
    """
    metadata, weights = _read(path)
    try:
        wiring = Wiring.from_json(metadata["wiring"])
        with torch.random.fork_rng(devices=[]):
            rnn = RNN(cell_from_config(json.loads(metadata["config"]), wiring, cells), backend)
    except (WiringError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path} describes a network that cannot be built: {error}") from error
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
    metadata, _ = _read(path)
    return {**metadata, "config": json.loads(metadata["config"]), "note": json.loads(metadata["note"])}


def _read(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and weights of a checkpoint whose checksum holds."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a readable safetensors file, or was cut short ({error})") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is a safetensors file, but was not written by ncp_control.save")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"{path} has checkpoint version {metadata.get('version')}, this package reads {VERSION}: "
            "use the version of ncp-control that wrote it, or a newer one"
        )
    missing = [key for key in (*DESCRIBED, "sha256") if key not in metadata]
    if missing:
        raise CheckpointError(f"{path} lacks {', '.join(missing)} in its metadata: it was altered")
    if metadata["sha256"] != _checksum(metadata, weights):
        raise CheckpointError(f"{path} does not match its checksum: it was altered or damaged after it was written")
    return metadata, weights


def _checksum(metadata: dict[str, str], weights: dict[str, Tensor]) -> str:
    """SHA-256 over the description and, in order of their names, every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256()
    for key in DESCRIBED:
        digest.update(f"{key}={metadata[key]}\n".encode())
    for name in sorted(weights):
        value = weights[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
