"""Reading the files of public sets as their publishers give them out: rows of text, numbers, and what is wrong."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.text import shown
from ncp_control.data.tables import to_number

SPACES = " "  # cells with any number of spaces between them


def find_files(folder: str | PathLike[str], names: Sequence[str], publisher: str) -> list[Path]:
    """Returns the paths of files in a folder, each with or without `.gz`, or says which are missing.

    :param folder: the folder that the user names
    :param names: the files, relative to the folder; `a|b` accepts either of two names
    :param publisher: who gives the files out, and under which title
    """
    root = Path(folder)
    if not root.is_dir():
        wanted = "is a file, not a folder" if root.exists() else "does not exist"
        raise FileNotFoundError(f"the folder {root} {wanted}: it should hold {_listed(names)} from {publisher}")
    found = {name: _first(root, name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise FileNotFoundError(
            f"{root} has no {_listed(missing)}: this set needs {_listed(names)}, which have these names in {publisher}"
        )
    return [path for path in found.values() if path is not None]


def _first(root: Path, name: str) -> Path | None:
    tried = [root / f"{one}{suffix}" for one in name.split("|") for suffix in ("", ".gz")]
    return next((path for path in tried if path.is_file()), None)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name.replace("|", " or ") for name in names)


def read_bytes(path: Path) -> bytes:
    """Returns what is in a file, unpacked if its name ends in `.gz`."""
    try:
        with _opened(path) as file:
            content = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole file of gzip: {error}") from error
    if not content:
        raise ValueError(f"{path} is empty")
    return content


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def read_rows(
    path: Path, columns: int, *, mark: str = ",", header: Sequence[str] = ()
) -> Iterator[tuple[int, list[str]]]:
    """Reads a table of text, and yields for each row its number in the file, from 1, and its cells.

    :param path: the file
    :param columns: how many cells every row has
    :param mark: what stands between two cells
    :param header: the names in the first row, which then has no values; empty if the first row has values
    """
    some = False
    try:
        with _opened(path) as file:
            lines = (line.decode("utf-8-sig" if number == 0 else "utf-8") for number, line in enumerate(file))
            cells = (line.split() for line in lines) if mark == SPACES else csv.reader(lines, delimiter=mark)
            for number, row in enumerate(cells, start=1):
                if not row:
                    continue
                if header and number == 1:
                    if [name.strip() for name in row] != list(header):
                        raise ValueError(f"{path}, row 1 should be the names {mark.join(header)}")
                    continue
                if len(row) != columns:
                    counted = f"{len(row)} column{'s' * (len(row) != 1)}"
                    raise ValueError(f"{path}, row {number} has {counted}, and should have {columns}")
                some = True
                yield number, row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a file of text") from error
    except csv.Error as error:
        raise ValueError(f"{path} is no table of text: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole file of gzip: {error}") from error
    if not some:
        raise ValueError(f"{path} is empty" if not header else f"{path} has no row below its names")


class Numbers:
    """Rows of numbers that are read one after another; a cell that is missing is NaN.

    :param path: the file, for messages
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values = array("d")
        self._rows = 0

    def add(self, number: int, cells: Sequence[str]) -> None:
        """Adds the cells of one row, which has this number in the file."""
        try:
            values = list(map(float, cells))
            plain = math.isfinite(sum(values))
        except ValueError:
            plain = False
        if not plain:
            values = [number_in(self.path, number, cell) for cell in cells]
        self._values.extend(values)
        self._rows += 1

    def matrix(self) -> NDArray[np.float64]:
        """Returns all rows, (rows, columns)."""
        return np.array(self._values, np.float64).reshape(self._rows, -1)


def number_in(path: Path, row: int, cell: str) -> float:
    """Returns the number in a cell, NaN if it is missing."""
    found = to_number(cell)
    if found is None or math.isinf(found):
        raise ValueError(f"{path}, row {row}: '{shown(cell)}' is not a number")
    return found


def read_matrix(path: Path, columns: int, *, mark: str = ",") -> NDArray[np.float64]:
    """Reads a table that has numbers only and no names, (rows, columns)."""
    numbers = Numbers(path)
    for row, cells in read_rows(path, columns, mark=mark):
        numbers.add(row, cells)
    return numbers.matrix()


def class_of(path: Path, row: int, word: str, classes: dict[str, int]) -> int:
    """Returns the number of a class from its word in a file."""
    found = classes.get(word.strip())
    if found is None:
        raise ValueError(f"{path}, row {row}: '{shown(word)}' is none of {', '.join(classes)}")
    return found
