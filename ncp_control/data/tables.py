"""Tables of measurements in `.csv`, `.tsv` and `.parquet` files: their columns as numbers, times and words."""

from __future__ import annotations

import csv
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.text import shown

SUFFIXES = (".csv", ".tsv", ".parquet")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")  # in lower case
FIRST = 2  # the number of the first row below the header, as editors and spreadsheets count


class DataTable:
    """The columns of a table. Rows are numbered as a spreadsheet numbers them: the header is row 1.

    :param path: the file, for messages
    :param columns: for each name, the cells as words, or as numbers where the file stores numbers
    """

    def __init__(self, path: Path, columns: dict[str, list[str] | NDArray[np.float64]]) -> None:
        self.path, self.columns = path, columns

    @property
    def rows(self) -> int:
        """The number of rows below the header."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> list[str] | NDArray[np.float64]:
        """Returns the cells of a column; the error for an unknown name lists the columns."""
        if name not in self.columns:
            raise ValueError(
                f"{self.path} has no column {name!r}: its columns are {', '.join(map(shown, self.columns))}"
            )
        return self.columns[name]

    def is_numbers(self, name: str) -> bool:
        """Whether every cell of a column is a number or missing, and at least one is a number."""
        cells = self.column(name)
        if isinstance(cells, np.ndarray):
            return bool(np.isfinite(cells).any())
        numbers = [to_number(cell) for cell in cells]
        return None not in numbers and not all(math.isnan(number) for number in numbers if number is not None)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Returns a column as numbers, (rows,), NaN where a cell is missing."""
        cells = self.column(name)
        if isinstance(cells, np.ndarray):
            values = cells
        else:
            read = [to_number(cell) for cell in cells]
            if None in read:
                row = read.index(None)
                raise ValueError(
                    f"{self.path}, row {row + FIRST}: {cells[row]!r} in the column {name!r} is not a number: "
                    "correct the cell, or name the columns to use without this one"
                )
            values = np.array(read, np.float64)
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise ValueError(f"{self.path}, row {row + FIRST}: the number in the column {name!r} is infinite")
        if np.isnan(values).all():
            raise ValueError(f"{self.path}: the column {name!r} has no value in any row: leave it out")
        return values

    def times(self, name: str) -> NDArray[np.float64]:
        """Returns a column of times, (rows,): numbers, or dates and times of ISO 8601 as seconds since 1970. The first
        cell says which."""
        cells = self.column(name)
        if isinstance(cells, list) and to_number(cells[0]) is None:
            times = np.empty(len(cells))
            for row, cell in enumerate(cells):
                try:
                    times[row] = to_seconds(cell)
                except ValueError as error:
                    raise ValueError(
                        f"{self.path}, row {row + FIRST}: {cell!r} in the column {name!r} is neither a number "
                        "nor a time such as 2026-01-31T12:00:00"
                    ) from error
            return times
        times = self.numbers(name)
        if np.isnan(times).any():
            row = int(np.argmax(np.isnan(times)))
            raise ValueError(f"{self.path}, row {row + FIRST}: the time in the column {name!r} is missing")
        return times

    def words(self, name: str) -> list[str]:
        """Returns the cells of a column as words; a missing one is empty."""
        cells = self.column(name)
        if isinstance(cells, np.ndarray):
            # 3.0 is the word 3, as in a file of text
            return ["" if math.isnan(cell) else repr(cell).removesuffix(".0") for cell in cells.tolist()]
        return [cell.strip() for cell in cells]


def read_table(path: Path) -> DataTable:
    """Reads a table: its first row has the names of its columns. The cells of a `.csv` file are separated by commas, or
    by semicolons if its first row has no comma; those of a `.tsv` file by tabs.
    """
    columns = _parquet(path) if path.suffix.lower() == ".parquet" else _text(path)
    if not columns:
        raise ValueError(f"{path} is empty, or its first row is: that row must have the names of its columns")
    table = DataTable(path, columns)
    if not table.rows:
        raise ValueError(f"{path} has the names of its columns, but no row below them")
    return table


def _text(path: Path) -> dict[str, list[str] | NDArray[np.float64]]:
    try:
        # spreadsheets begin a file with a byte order mark; csv wants the ends of lines as they are
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            mark = "\t" if path.suffix.lower() == ".tsv" else ";" if ";" in first and "," not in first else ","
            rows = csv.reader(file, delimiter=mark)
            names = [name.strip() for name in next(rows, [])]
            if not any(names):
                return {}
            _check_names(path, names)
            cells: list[list[str]] = [[] for _ in names]
            empty = 0
            for number, row in enumerate(rows, start=FIRST):
                if not row:
                    empty = empty or number  # fine at the end of the file, which only the next row tells
                    continue
                if empty:
                    raise ValueError(f"{path}, row {empty} is empty, and more rows follow: remove it")
                if len(row) != len(names):
                    raise ValueError(f"{path}, row {number} has {len(row)} cells, and the first row names {len(names)}")
                for column, cell in zip(cells, row, strict=True):
                    column.append(cell)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: save it as such") from error
    except csv.Error as error:
        raise ValueError(f"{path} is no table of text: {error}") from error
    return dict(zip(names, cells, strict=True))


def _parquet(path: Path) -> dict[str, list[str] | NDArray[np.float64]]:
    try:
        import pyarrow
        from pyarrow import parquet, types
    except ImportError as error:
        raise ImportError(
            f'{path} needs pyarrow, which reads Parquet: pip install "ncp-control[parquet]", or save it as .csv'
        ) from error
    try:
        read = parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is not a file of Parquet, or it is damaged: {error}") from error
    _check_names(path, read.column_names)
    columns: dict[str, list[str] | NDArray[np.float64]] = {}
    for name, column in zip(read.column_names, read.columns, strict=True):
        kind = column.type
        if types.is_floating(kind) or types.is_boolean(kind):
            columns[name] = column.cast("float64").to_numpy().copy()  # Arrow's own memory is read-only
        elif types.is_timestamp(kind):  # in microseconds, which is what Python's dates hold
            zone = pyarrow.timestamp("us", kind.tz)
            columns[name] = [_word(cell) for cell in column.cast(zone, safe=False).to_pylist()]
        else:  # integers, too, which may be too large for a float and then are names
            columns[name] = [_word(cell) for cell in column.to_pylist()]
    return columns


def _word(cell: Any) -> str:
    """Returns a value of Parquet that is no number as a cell of text."""
    return "" if cell is None else cell.isoformat() if isinstance(cell, datetime) else str(cell)


def _check_names(path: Path, names: list[str]) -> None:
    """Refuses columns of one name, and columns without a name."""
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(f"{path}: column {number} has no name in the first row")
        if names.index(name) != number - 1:
            raise ValueError(f"{path} has two columns of the name {name!r}: give each its own")


def to_number(cell: str) -> float | None:
    """Returns the number in a cell, NaN if it is missing, None if it holds anything else."""
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    try:
        return float(text) if "_" not in text else None  # Python reads 1_0 as 10, and a name may look so
    except ValueError:
        return None


def to_seconds(cell: str) -> float:
    """Returns a date and time of ISO 8601 as seconds since 1970; without a zone it is taken for UTC."""
    text = cell.strip()
    # Python 3.10 does not read the Z of UTC
    time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
