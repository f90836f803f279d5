"""Checks of a Minari dataset from an untrusted source, before Minari reads it."""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path
from typing import Any

from ncp_control.base.safe_arrays import check_size

# The key of our own record in Minari's metadata.
RECORD = "ncp_control"
MAIN_FILE = "main_data.hdf5"


def check_description(metadata: dict[str, Any], record: Any, main: Path) -> None:
    """Refuses metadata that would make Minari run code or fill the memory, and data that does not match the metadata.

    :param metadata: the content of `metadata.json`
    :param record: our own entry in it
    :param main: the HDF5 file
    """
    for key in ("observation_space", "action_space"):
        if not isinstance(metadata.get(key), str):
            raise ValueError(
                f"it does not say its {key}; the environment that it names would have one, but making an environment "
                "that a file names could run any code"
            )
    if metadata.get("data_format") != "hdf5":
        raise ValueError(f"it is stored as {metadata.get('data_format')}, and only hdf5 is read")
    episodes, size = metadata.get("total_episodes"), main.stat().st_size
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not 0 < episodes <= size:
        raise ValueError(f"its metadata claim {episodes} episodes")
    if not isinstance(record, dict) or not isinstance(record.get("observation_names", []), list):
        raise ValueError(f"the entry {RECORD} of its metadata is not the record of a collection")
    if "sha256" in record and record["sha256"] != sha256_of(main):
        raise ValueError(f"{MAIN_FILE} does not match the checksum in metadata.json: the file was altered or damaged")
    check_hdf5(main)


def check_hdf5(path: Path) -> None:
    """Refuses an HDF5 file that refers to other files, or declares far more data than it holds."""
    import h5py

    seen: set[int] = set()

    def size_of(group: Any) -> int:
        """Returns the bytes that all arrays below a group declare."""
        total = 0
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{group.name}/{name} is a link to another place")
            item = group[name]
            place = h5py.h5o.get_info(item.id).addr
            if place in seen:
                raise ValueError(f"{group.name}/{name} is in the file under two names")
            seen.add(place)
            if isinstance(item, h5py.Group):
                total += size_of(item)
            elif isinstance(item, h5py.Dataset):
                if item.is_virtual or item.external:
                    raise ValueError(f"{item.name} lies in another file")
                if not is_whole(item):
                    raise ValueError(f"{item.name} declares {item.shape} values, and not all of them are there")
                total += prod(item.shape or ()) * item.dtype.itemsize
        return total

    with h5py.File(path, "r") as file:
        check_size(size_of(file), path.stat().st_size)


def is_whole(array: Any) -> bool:
    """Whether the file holds all values that an array declares; HDF5 would make up the missing ones."""
    if array.chunks is None:
        return bool(array.id.get_storage_size() >= prod(array.shape or ()) * array.dtype.itemsize)
    wanted = prod(-(-length // chunk) for length, chunk in zip(array.shape, array.chunks, strict=True))
    return bool(array.id.get_num_chunks() == wanted)


def sha256_of(path: Path) -> str:
    """Returns the checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
