"""Reads NumPy's `.npy` and `.npz` files without running code from them and without trusting the sizes they declare."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Array = NDArray[Any]
# No real file of more than HARMLESS bytes of arrays is compressed more than DENSEST times. What is made of the arrays,
# such as a page, takes many times their memory, so HARMLESS is small.
DENSEST, HARMLESS = 64, 2**24
LENGTHS_AT = 26  # where a member's header has the lengths of its name and its extra field
SLACK = 24  # bytes that some writers put after a member
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
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
            file.seek(0)
            if start == npy.MAGIC_PREFIX:
                return {"": read_array(file, size)}
            if not start.startswith(b"PK"):
                raise _Refused("holds Python objects or is no NumPy file: neither is read")
            with zipfile.ZipFile(file) as archive:
                check_places(archive, file)
                return read_members(archive, size, names)
    except _Refused as reason:
        raise ArraysError(f"{path} {reason}") from None
    except PermissionError:
        raise
    except BROKEN as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ArraysError(f"{path} is not a readable file of arrays, or was cut short ({words})") from error


def check_places(archive: zipfile.ZipFile, file: Any) -> None:
    """Refuses a gap between the members: it may be an array that the directory does not list any more."""
    end = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if not 0 <= member.header_offset - end <= SLACK:
            raise ValueError("there is something between its arrays")
        file.seek(member.header_offset + LENGTHS_AT)
        name, extra = struct.unpack("<HH", file.read(4))
        end = member.header_offset + LENGTHS_AT + 4 + name + extra + member.compress_size
    if not 0 <= archive.start_dir - end <= SLACK:
        raise ValueError("there is something between its arrays and its directory")


def read_members(archive: zipfile.ZipFile, size: int, names: Collection[str] | None) -> dict[str, Array]:
    """Reads the arrays of an archive whose file has `size` bytes."""
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    if len(members) < len(archive.infolist()):
        raise ValueError("two arrays have the same name")
    wanted = [name for name in members if names is None or name in names]
    check_size(sum(members[name].file_size for name in wanted), size)
    found = {}
    for name in wanted:
        if members[name].compress_type not in PACKINGS:
            raise ValueError(f"{name} is neither stored nor deflated")
        with archive.open(members[name]) as file:
            found[name] = read_array(file, members[name].file_size)
    return found


def read_array(file: Any, size: int) -> Array:
    """Reads an array from an open file of `size` bytes, which must hold nothing else."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, in_columns, kind = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, in_columns, kind = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version} of NumPy's format cannot be read")
    if kind.hasobject:
        raise _Refused("holds Python objects or is no NumPy file: neither is read")
    if kind.kind not in "biufU" or kind.subdtype is not None:
        raise _Refused(f"holds an array of {kind}: only numbers and text are read")
    count = prod(shape)
    if min(shape, default=0) < 0 or count * kind.itemsize > size:
        raise ValueError(f"an array of shape {shape} does not fit into {size} bytes")
    content = bytearray(count * kind.itemsize)
    if file.readinto(content) != len(content) or file.read(1):
        raise ValueError(f"there are more or fewer bytes than an array of shape {shape} has")
    values = np.frombuffer(content, kind).reshape(shape, order="F" if in_columns else "C")
    return values.astype(kind.newbyteorder("="), copy=False)


def check_size(declared: int, size: int) -> None:
    """Refuses arrays that would be many times as large in memory as in their file."""
    most = max(HARMLESS, DENSEST * size)
    if declared > most:
        raise _Refused(
            f"would take {mebibytes(declared)} of memory, and the arrays in a file of {size:,} bytes may take "
            f"{mebibytes(most)}"
        )


def mebibytes(size: int) -> str:
    """Returns a number of bytes in words."""
    return f"{size / 2**20:,.0f} MiB"
