"""Checks of a Minari dataset from an untrusted source, before Minari reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

# The key of our own record in Minari's metadata.
RECORD = "ncp_control"
MAIN_FILE = "main_data.hdf5"


def check_description(metadata: dict[str, Any], record: Any, main: Path) -> None:
    """Refuses metadata that would make Minari run code, and data that does not match the metadata.

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


def sha256_of(path: Path) -> str:
    """Returns the checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
