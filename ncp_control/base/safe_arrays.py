"""Reads NumPy's `.npy` and `.npz` files, without running code from them or filling the memory from a small one."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Array = NDArray[Any]
# No real file of more than HARMLESS bytes of arrays is compressed more than DENSEST times. What is made of the arrays,
# such as a page, takes many times their memory, so HARMLESS is small.
DENSEST, HARMLESS = 64, 2**24
FOREIGN = "holds Python objects or is no NumPy file: neither is read"
BROKEN = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, LookupError,
          TypeError, AttributeError, ArithmeticError, MemoryError, SyntaxError, tokenize.TokenError)  # fmt: skip


class ArraysError(ValueError):
    """A file holds no arrays, or something else beside them."""


class _Refused(ValueError):
    """A file is undamaged but holds something that is not read; the message goes after the file's name."""


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, Array]:
    """Reads the arrays of an `.npz` by their names, or the array of an `.npy` under the name "".

    :param names: the arrays to read; by default all
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            start = file.read(len(npy.MAGIC_PREFIX))
        if start != npy.MAGIC_PREFIX and not start.startswith(b"PK"):
            raise _Refused(FOREIGN)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": plain(loaded)}
        with loaded:
            wanted = [name for name in loaded.files if names is None or name in names]
            declared = {one.filename.removesuffix(".npy"): one.file_size for one in loaded.zip.infolist()}
            check_size(sum(declared[name] for name in wanted), size)
            return {name: plain(loaded[name]) for name in wanted}
    except _Refused as reason:
        raise ArraysError(f"{path} {reason}") from None
    except PermissionError:
        raise
    except BROKEN as error:
        words = " ".join(str(error).split()) or type(error).__name__
        if "allow_pickle=False" in words:
            raise ArraysError(f"{path} {FOREIGN}") from error
        raise ArraysError(f"{path} is not a readable file of arrays, or was cut short ({words})") from error


def plain(values: Any) -> Array:
    """Returns an array of numbers or text in the byte order of this machine; other things are refused."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biufU":
        raise _Refused(f"holds an array of {getattr(values, 'dtype', 'bytes')}: only numbers and text are read")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def check_size(declared: int, size: int) -> None:
    """Refuses arrays that would be many times as large in memory as in their file."""
    most = max(HARMLESS, DENSEST * size)
    if declared > most:
        raise _Refused(
            f"would take {declared / 2**20:,.0f} MiB of memory, and the arrays in a file of {size:,} bytes may take "
            f"{most / 2**20:,.0f} MiB"
        )
