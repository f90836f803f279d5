"""Writing a recorded rollout chunk by chunk, so that a long one is never in memory as a whole."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ncp_control._version import __version__
from ncp_control.activity.recording.activity import ENDS, FORMAT, VERSION, Array
from ncp_control.base.files import errors_name, temporary_folder
from ncp_control.wiring import Wiring


class Writer:
    """Writes the file that `Activity.load` reads.

    The file appears at the end of the `with` block. After an error in the block no file appears. After a
    KeyboardInterrupt it holds the steps that were recorded until then.

    :param path: the `.npz` file; it is replaced as a whole if it exists
    :param about: what is recorded (see the module `activity`); format, version and package are filled in
    :param wiring: the circuit's
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any], wiring: Wiring) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} does not exist: create it first")
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder: name a file")
        self.about = {"format": FORMAT, "version": VERSION, "package": __version__, **about}
        self.wiring = wiring
        self.steps = 0
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._fixed: dict[str, Array] = {}
        self._temporary = ExitStack()
        self._folder = self._temporary.enter_context(temporary_folder(self.path))

    def __enter__(self) -> Writer:
        return self

    def append(self, **arrays: Array) -> None:
        """Adds rows for the next steps; every call must give the same arrays, each with the same number of rows."""
        steps = {len(values) for values in arrays.values()}
        if len(steps) != 1 or (self._shapes and set(arrays) != set(self._shapes)):
            raise ValueError("every chunk of a recording must have the same arrays, all with the same number of rows")
        for name, values in arrays.items():
            kind = np.dtype(bool) if values.dtype == bool else np.dtype(np.float32)
            self._shapes.setdefault(name, (values.shape[1:], kind))
            with errors_name(self.path), (self._folder / name).open("ab") as file:
                file.write(np.ascontiguousarray(values, dtype=kind).tobytes())
        self.steps += steps.pop()

    def fix(self, **arrays: Array) -> None:
        """Sets arrays that do not have a row for each step."""
        for name, values in arrays.items():
            array = np.asarray(values)
            # bytes stay bytes, and an end is exact, so that what goes on there is the same
            is_kept = array.dtype == np.uint8 or name in ENDS
            self._fixed[name] = array if is_kept else array.astype(np.float32)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.steps and (kind is None or issubclass(kind, KeyboardInterrupt)):
                with errors_name(self.path):
                    self._finish()
                if kind is not None:
                    print(f"\ninterrupted: {self.steps:,} steps are kept in {self.path}", file=sys.stderr)
        finally:
            self._temporary.close()

    def _finish(self) -> None:
        """Writes the file under a temporary name and then renames it."""
        temporary = self._folder / "whole.npz"
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
            for name, text in (("about", json.dumps(self.about)), ("wiring", self.wiring.to_json())):
                self._write(file, name, np.array(text))
            for name, values in self._fixed.items():
                self._write(file, name, values)
            for name, (shape, kind) in self._shapes.items():
                # Only now is the number of rows known, so the rows wait in a file of their own for this header.
                header = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": (self.steps, *shape)}
                with (
                    # Without this an entry whose size is not known at first may have 2 GiB at most.
                    file.open(self._member(name), "w", force_zip64=True) as member,
                    (self._folder / name).open("rb") as rows,
                ):
                    npy.write_array_header_1_0(member, header)
                    shutil.copyfileobj(rows, member)
        with temporary.open("rb+") as whole:
            os.fsync(whole.fileno())  # or after a power failure the new name could stand for an empty file
        temporary.replace(self.path)

    def _write(self, file: zipfile.ZipFile, name: str, values: Array) -> None:
        buffer = io.BytesIO()
        npy.write_array(buffer, values, allow_pickle=False)
        file.writestr(self._member(name), buffer.getvalue())

    @staticmethod
    def _member(name: str) -> zipfile.ZipInfo:
        """Names an array in the file, without the time of day: equal rollouts make equal files."""
        return zipfile.ZipInfo(f"{name}.npy")
