"""Arrays that stay on disk: of their rows, only those that are asked for are read."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Column:
    """Rows of numbers in a file, all of one type and shape.

    The file may be removed while it is open, and is gone from the disk when it is closed.

    :param path: the file
    :param dtype: the type of the numbers
    :param shape: the shape of a row
    :param new: make the file, which must not exist yet, to write into it
    :ivar largest: the largest absolute value that was written
    """

    def __init__(self, path: Path, dtype: Any, shape: tuple[int, ...], largest: float = 0.0, new: bool = False) -> None:
        self.path, self.shape, self.largest = path, shape, largest
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.size: int = self.dtype.itemsize * prod(shape)  # bytes of a row
        # unbuffered, because os.pread does not see what Python still holds back
        self._file = path.open("x+b" if new else "rb", buffering=0)
        weakref.finalize(self, self._file.close)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process opens the file anew."""
        return Column, (self.path, self.dtype, self.shape, self.largest)

    def write(self, row: int, values: Array) -> None:
        """Writes rows, from a row on."""
        rows: Array = np.ascontiguousarray(values, self.dtype)
        if rows.size and self.dtype.kind == "f":
            self.largest = max(self.largest, float(np.abs(rows).max()))
        left = memoryview(rows.reshape(-1).view(np.uint8).data)
        self._file.seek(row * self.size)
        while left:  # an unbuffered write may take a part only
            left = left[self._file.write(left) :]

    def read(self, row: int, count: int) -> Array:
        """Reads rows, from a row on; (count, ...)."""
        rows: Array = self.cut([row], count)[0]
        return rows

    def cut(self, starts: Sequence[int], length: int) -> Array:
        """Reads pieces of `length` rows, one from each start; (len(starts), length, ...)."""
        number, size, wanted = self._file.fileno(), self.size, self.size * length
        # a bytearray, because torch shares only memory that can be written to
        pieces = bytearray().join([os.pread(number, wanted, start * size) for start in starts])
        if len(pieces) != wanted * len(starts):  # the system reads at most 2 GiB at once, or the file is damaged
            pieces = bytearray().join([self._whole(start * size, wanted) for start in starts])
        return np.frombuffer(pieces, self.dtype).reshape(len(starts), length, *self.shape)

    def expect(self, starts: Sequence[int], length: int) -> None:
        """Asks the system to fetch these pieces from the disk meanwhile, because they are read soon."""
        if hasattr(os, "posix_fadvise"):
            number, size = self._file.fileno(), self.size
            for start in starts:
                os.posix_fadvise(number, start * size, length * size, os.POSIX_FADV_WILLNEED)

    def _whole(self, place: int, wanted: int) -> bytearray:
        content = bytearray()
        while len(content) < wanted:
            piece = os.pread(self._file.fileno(), wanted - len(content), place + len(content))
            if not piece:
                raise OSError(f"{self.path} is shorter than it was when it was written")
            content += piece
        return content


class StoredArray:
    """Some rows of a column, in place of a NumPy array in a `Rollout`.

    A slice of it is such an array again. A single row is read, and NumPy reads all rows when it computes with them.

    :param column: where the rows are
    :param first: the first of them
    :param count: their number
    """

    __slots__ = ("column", "count", "first")

    def __init__(self, column: Column, first: int, count: int) -> None:
        self.column, self.first, self.count = column, first, count

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.count, *self.column.shape

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        return self.column.dtype

    @property
    def nbytes(self) -> int:
        """The bytes that it would take in memory."""
        return self.count * self.column.size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.count)
            return StoredArray(self.column, self.first + start, max(0, stop - start))
        if isinstance(index, int | np.integer) and -self.count <= index < self.count:
            return self.column.read(self.first + int(index) % self.count, 1)[0]
        return np.asarray(self)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on disk is read into a new array")
        return self.column.read(self.first, self.count).astype(dtype or self.dtype, copy=False)


def column_of(arrays: Sequence[Any]) -> Column | None:
    """Returns the column in which all of these arrays lie; None if they lie in memory or in several columns."""
    columns = {id(array.column): array.column for array in arrays if isinstance(array, StoredArray)}
    alone = len(columns) == 1 and all(isinstance(array, StoredArray) for array in arrays)
    return next(iter(columns.values())) if alone else None
