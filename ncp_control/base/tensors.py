"""Tensors and their description in one safetensors file, with a checksum; reading one runs no code."""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from ncp_control._version import __version__
from ncp_control.base.files import write_atomically
from ncp_control.base.kinds import FORMATS

HEADER = ("format", "version", "package")
READINGS = 10  # attempts to read a file that is replaced meanwhile
TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool)  # fmt: skip


class CheckpointError(ValueError):
    """A file is not a checkpoint, or was changed after it was written."""


def write_tensors(
    path: str | Path, kind: str, version: int, described: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> None:
    """Writes tensors and their description.

    :param path: the file; replaced whole if it exists
    :param kind: the format, such as "ncp_control.rnn"
    :param version: the format's version
    :param described: texts by name; the checksum covers them in this order
    """
    values = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = {"format": kind, "version": str(version), "package": __version__, **described}
    metadata["sha256"] = checksum(metadata, tuple(described), values)
    write_atomically(path, in_order(to_safetensors(values, metadata)))


def in_order(file: bytes) -> bytes:
    """Returns a safetensors file with its metadata in the order of names, so that equal contents give equal files.

    safetensors itself writes them in an order that changes from call to call. A file begins with the length of its
    header, in eight bytes, and the header is JSON, filled up with spaces to a multiple of eight bytes.
    """
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(file)[8 + length :]])


def read_tensors(
    path: str | Path, kind: str, version: int | tuple[int, ...], described: tuple[str, ...], writer: str
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Reads a file and checks its format, its version and its checksum.

    :param version: the version, or the versions, that the caller reads
    :param described: the names of the texts that the file must have
    :param writer: the function that writes such files, for messages
    :return: the metadata and the tensors
    """
    path = Path(path)
    if path.is_dir():
        best = path / "best.safetensors"
        hint = f", such as {best}" if best.exists() else ""
        raise IsADirectoryError(f"{path} is a folder: name a file in it{hint}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    metadata, tensors = read_parts(path)
    found = metadata.get("format")
    if found != kind and found in FORMATS and kind in FORMATS:
        raise CheckpointError(f"{path} holds {FORMATS[found].value}, not {FORMATS[kind].value}")
    if found != kind:
        raise CheckpointError(f"{path} is a safetensors file, but was not written by {writer}")
    versions = [str(one) for one in (version if isinstance(version, tuple) else (version,))]
    if metadata.get("version") not in versions:
        raise CheckpointError(
            f"{path} has checkpoint version {metadata.get('version')}, this package reads {' and '.join(versions)}: "
            "use the version of ncp-control that wrote it, or a newer one"
        )
    missing = [key for key in (*HEADER, *described, "sha256") if key not in metadata]
    if missing:
        raise CheckpointError(f"{path} lacks {', '.join(missing)} in its metadata: it was altered")
    for name, value in tensors.items():
        if value.dtype not in TYPES:
            raise CheckpointError(f"{path} holds {name} as {value.dtype}: no checkpoint of this package has this type")
    if metadata["sha256"] != checksum(metadata, described, tensors):
        raise CheckpointError(f"{path} does not match its checksum: it was altered or damaged after it was written")
    return metadata, tensors


def read_parts(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Reads the metadata and the tensors of one and the same file.

    safetensors opens a file once for its header and once more for its tensors. A training that goes on may replace the
    file in between; then it is read again.
    """
    for _ in range(READINGS):
        before = path.stat()
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            trouble = None
        except SafetensorError as error:
            trouble = error
        after = path.stat()
        if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
            break
    if trouble is not None:
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        if is_zip:
            raise CheckpointError(
                f"{path} is a zip archive, such as Stable-Baselines3's models are: load it with the class that saved "
                "it, and make a safetensors file of it with ncp_control.rl.save_policy"
            ) from trouble
        raise CheckpointError(f"{path} is not a readable safetensors file, or was cut short ({trouble})") from trouble
    return metadata, tensors


def checksum(metadata: Mapping[str, str], described: tuple[str, ...], tensors: Mapping[str, Tensor]) -> str:
    """Returns SHA-256 of the description and of each tensor's name, type, shape and bytes, in the order of names."""
    digest = hashlib.sha256()
    for key in (*HEADER, *described):
        digest.update(f"{key}={metadata[key]}\n".encode())
    _add(digest, tensors)
    return digest.hexdigest()


def hash_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Returns SHA-256 of tensors alone: of each name, type, shape and bytes, in the order of names."""
    digest = hashlib.sha256()
    _add(digest, {name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    return digest.hexdigest()


def rough_moments(tensors: Mapping[str, Tensor]) -> list[float]:
    """Returns three numbers that tell tensors from others, but not from the same up to rounding.

    They are the root of the mean square of all numbers x, and of x / root the mean and the mean product of neighbours,
    each to four digits. First weights of one seed differ in their last digits from one kind of processor to another.
    """
    every = torch.cat([tensors[name].detach().cpu().double().flatten() for name in sorted(tensors)])
    root = float(every.square().mean().sqrt()) if every.numel() else 0.0
    scaled = every / (root or 1.0)
    neighbours = float((scaled[1:] * scaled[:-1]).sum()) / max(1, every.numel())
    return [float(f"{root:.4g}"), round(float(scaled.sum()) / max(1, every.numel()), 4), round(neighbours, 4)]


def _add(digest: Any, tensors: Mapping[str, Tensor]) -> None:
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        # a tensor of one number may have a stride of 0, which `view` refuses
        digest.update(value.reshape(-1).as_strided((value.numel(),), (1,)).view(torch.uint8).numpy())


# The errors that a description which we did not write can cause in code that expects ours.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError, ArithmeticError,
              MemoryError)  # fmt: skip


@contextmanager
def described_in(path: str | Path, what: str) -> Iterator[None]:
    """Turns an error that a description causes in the block into a CheckpointError of one sentence.

    :param what: what the file describes, such as "a network that cannot be built"
    """
    try:
        yield
    except UNREADABLE as error:
        words = " ".join(str(error).split()) or type(error).__name__
        words = f"{words} is missing" if isinstance(error, KeyError) else words
        raise CheckpointError(f"{path} describes {what}: {textwrap.shorten(words, 400)}") from error


@contextmanager
def building(path: str | Path, what: str) -> Iterator[None]:
    """Builds in the block what a file describes: errors become one sentence, and torch's random state is afterwards as
    it was before.

    :param what: as in `described_in`
    """
    with described_in(path, what), torch.random.fork_rng(devices=[]):
        yield


# The tensors that an optimizer keeps for each parameter.
NEEDED = {
    "Adam": ("step", "exp_avg", "exp_avg_sq"), "AdamW": ("step", "exp_avg", "exp_avg_sq"),
    "RMSprop": ("step", "square_avg"), "Muon": ("mean",),
}  # fmt: skip


def pack(value: Any, tensors: dict[str, torch.Tensor], copy: bool = True) -> Any:
    """Turns nested values into JSON values, and puts their arrays and tensors into `tensors` under numbers.

    :param copy: put copies there, because safetensors refuses two names for the same memory. Large arrays that are all
        apart need none if they are written before they change
    """
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().clone() if copy else value.detach().cpu()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, pack(own, tensors, copy)] for key, own in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [pack(own, tensors, copy) for own in value]}
    if isinstance(value, np.generic):
        return value.item()
    return value


def unpack(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Returns what `pack` was given, with lists for tuples and tensors for arrays."""
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "list" in value:
        return [unpack(own, tensors) for own in value["list"]]
    return {key: unpack(own, tensors) for key, own in value["dict"]}


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError if the state that an optimizer was given is not one of its own."""
    for group in optimizer.param_groups:
        for name, usual in optimizer.defaults.items():
            if not is_like(group.get(name), usual):
                raise ValueError(f"an optimizer cannot have {name} {group.get(name)!r}")
    needed = NEEDED.get(type(optimizer).__name__, ())
    for parameter, state in optimizer.state.items():
        for name in {*needed, *state}:
            value = state.get(name)
            if value is None and name not in needed:
                continue
            shapes = ((), parameter.shape) if name == "step" else (parameter.shape,)
            if not isinstance(value, torch.Tensor) or value.shape not in shapes:
                raise ValueError(f"{name} in an optimizer's state does not fit its parameter")


def is_like(value: Any, usual: Any) -> bool:
    """Whether a setting may replace the usual one: a finite number for a number, and a flag only if it is the same."""
    if isinstance(usual, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(usual) and all(map(is_like, value, usual))
    if usual is None or isinstance(usual, bool):
        return value is usual
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
