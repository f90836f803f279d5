"""Rollouts whose arrays stay on disk, for data that is larger than the memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import check_room
from ncp_control.base.machine import memory_size
from ncp_control.data.columns import Array, Column, StoredArray
from ncp_control.data.minari_files import minari_folder
from ncp_control.data.rollout import Rollout, StoredRollouts, need_one_hot, one_hot, range_of_one_hot
from ncp_control.data.sources import KEYS, read_source
from ncp_control.data.table_rollouts import table_source

SHARE = 0.25  # of the free memory: larger data is better left on disk
SUFFIXES = (".hdf5", ".npy", ".npz")
BLOCK = 2**16  # rows


def is_large(*sources: Any, processes: int = 1) -> bool:
    """Whether the data takes more than a quarter of the free memory, so that it is better streamed.

    :param sources: each as in `Rollouts.load`
    :param processes: how many processes of this machine would each read all of them
    """
    return can_stream() and processes * sum(map(size_on_disk, sources)) > SHARE * memory_size()


def can_stream() -> bool:
    """Whether this system can read a file from any position, and keep a removed file open; Windows cannot."""
    return hasattr(os, "pread")


def size_on_disk(source: Any) -> int:
    """Returns how many bytes the data files of a source have; 0 if there are none."""
    path = Path(str(source.storage.data_path) if hasattr(source, "iterate_episodes") else source)
    table = table_source(str(source))
    path = path if table is None else table.path
    if not path.exists():
        path = minari_folder(str(source)) or path
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in SUFFIXES]
    return sum(file.stat().st_size for file in files)


def keep_on_disk(source: Any, scratch: Path, as_one_hot: bool = False) -> StoredRollouts:
    """Reads a source rollout by rollout, once, and copies each into files from which it is read when it is needed.

    The files may be removed as soon as this returns: they stay open.

    :param source: as in `Rollouts.load`
    :param scratch: an empty folder for the files
    :param as_one_hot: keep choices as vectors, as `Rollouts.one_hot` makes them
    """
    if not can_stream():
        raise ValueError("this system cannot read rollouts from disk as needed: read them into memory")
    stored = read_source(source)
    check_room(scratch, size_on_disk(source))
    choices = stored.choices if as_one_hot and need_one_hot(stored.choices) else None
    if choices is not None:
        stored = stored._replace(action_range=range_of_one_hot(choices), choices=None, action_names=())
    writer = RolloutWriter(scratch)

    def written() -> Iterator[Rollout]:
        for rollout in stored.rollouts:
            yield writer.add(rollout if choices is None else one_hot(rollout, choices))

    return stored._replace(rollouts=tuple(written()))


class RolloutWriter:
    """Writes rollouts into columns, one for each kind of array. A rollout of T steps takes T + 1 rows of each column.

    :param scratch: the folder of the columns' files
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.rows = scratch, 0
        self.columns: dict[str, Column] = {}

    def add(self, rollout: Rollout) -> Rollout:
        """Writes a rollout, and returns it with its arrays on disk."""
        arrays: dict[str, Any] = {}
        for key in KEYS:
            values = getattr(rollout, key)
            if values is not None:
                column = self.column(rollout.name, key, values)
                column.write(self.rows, values)
                arrays[key] = StoredArray(column, self.rows, len(values))
            elif key == "elapsed" and key in self.columns:
                self.columns[key].write(self.rows, np.ones(rollout.steps + 1))
        self.rows += rollout.steps + 1
        return Rollout(**arrays, terminated=rollout.terminated, seed=rollout.seed, name=rollout.name)

    def column(self, name: str, key: str, values: Array) -> Column:
        """Returns the column for an array, which must be like those that were written before."""
        column = self.columns.get(key)
        if column is None:
            column = Column(self.scratch / key, values.dtype, values.shape[1:], new=True)
            self.columns[key] = column
            if key == "elapsed":  # a rollout without it has steps of length 1
                for start in range(0, self.rows, BLOCK):
                    column.write(start, np.ones(min(BLOCK, self.rows - start)))
        if values.shape[1:] != column.shape:
            raise ValueError(
                f"{name} has {key} of shape {values.shape[1:]} a step, the rollouts before it of {column.shape}: they "
                "do not belong together"
            )
        if not np.can_cast(values.dtype, column.dtype):  # a column has one type, and no digit may be lost
            raise ValueError(
                f"{name} has {key} of {values.dtype}, the rollouts before it of {column.dtype}: make all of one type, "
                "or read them into memory"
            )
        return column
