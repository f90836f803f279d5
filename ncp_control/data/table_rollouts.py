"""Rollouts from a table of measurements: which columns are observed, which act, which tell time and group."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.rollout import Rollout, StoredRollouts
from ncp_control.data.tables import FIRST, SUFFIXES, DataTable, read_table

KEYS = ("time", "group", "predict", "read", "label", "value", "each", "split")
LISTS = ("predict", "read", "value")
HOW = "FILE.csv:time=COLUMN,group=COLUMN,predict=A+B,read=C+D, or label=COLUMN or value=A+B in place of predict"
SAYS = ("predict", "label", "value")  # a table has one of them at most
SPLITS = ("groups", "time", "none")
EVEN = 1e-6  # intervals that differ by a smaller share than this are equal


@dataclass(frozen=True)
class TableSource:
    """A table's file, and what its columns are for; `FILE.csv:time=t,group=g,predict=a+b,read=c` in one word.

    :param path: the file
    :param time: the column of times, numbers or dates; empty if rows are equally far apart
    :param group: the column that tells which rows belong together; empty if all do
    :param predict: the columns that are observed and predicted; by default all columns of numbers without another use
    :param read: columns that are known beforehand, such as settings or a forecast, and that a model may read as it
        reads actions
    :param label: the column of classes that are to be told
    :param value: the columns of numbers that are to be told of the same row
    :param each: "group" if a whole group has one label, or one value; empty if every row has its own
    :param split: "groups", "time" or "none": how series are split for training and testing; empty for the default
    """

    path: Path
    time: str = ""
    group: str = ""
    predict: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    label: str = ""
    value: tuple[str, ...] = ()
    each: str = ""
    split: str = ""

    def __post_init__(self) -> None:
        said = [key for key in SAYS if getattr(self, key)]
        if len(said) > 1:
            raise ValueError(f"{self.path}: {said[0]}= and {said[1]}= are two tasks: name one of them")
        if self.each not in ("", "group"):
            raise ValueError(f"{self.path}: each= is group, for one label of a whole group, not {self.each!r}")
        if self.each and (not self.group or "predict" in said or not said):
            raise ValueError(
                f"{self.path}: each=group says that a whole group has one label or value: name the column of groups, "
                "and label= or value="
            )
        if self.split not in ("", *SPLITS):
            raise ValueError(f"{self.path}: split= is {', '.join(SPLITS[:-1])} or {SPLITS[-1]}, not {self.split!r}")
        if self.split == "groups" and not self.group:
            raise ValueError(f"{self.path}: split=groups needs a column of groups: name it, group=COLUMN")


def table_source(source: str | PathLike[str]) -> TableSource | None:
    """Reads the name of a table, with or without its columns; None for anything else."""
    text = str(source)
    for suffix in SUFFIXES:
        found = text.lower().rfind(suffix)
        end = found + len(suffix)
        if found >= 0 and text[end : end + 1] in ("", ":"):
            break
    else:
        return None
    columns: dict[str, str] = {}
    for part in text[end + 1 :].split(",") if text[end + 1 :] else []:
        key, equals, value = part.partition("=")
        if key not in KEYS or not equals or not value or key in columns:
            raise ValueError(f"{part!r} in {text!r} does not say what a column is for: write {HOW}")
        columns[key] = value
    lists = {key: tuple(columns.pop(key).split("+")) for key in LISTS if key in columns}
    return TableSource(Path(text[:end]), **columns, **lists)  # type: ignore[arg-type]


def read_table_rollouts(source: TableSource) -> StoredRollouts:
    """Reads a table: each group of rows becomes a rollout, whose observations are the columns to predict.

    Row t of a group is observation t; its columns to read are the actions that lead from it to observation t + 1. Times
    become `elapsed`, the time since the row before, unless all rows are equally far apart.
    """
    for key in ("label", "value", "each", "split"):
        if getattr(source, key):
            raise ValueError(
                f"{source.path}: {key}= makes series, which are fitted, evaluated and described, and no "
                "rollouts: leave it out here, or read the table with ncp_control.series.read_series"
            )
    table = read_table(source.path)
    predict, left_out = chosen(table, source)
    used = [name for name in (source.time, source.group, *predict, *source.read) if name]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(f"{source.path}: the column {name!r} is named twice, and has one use: name it once")
    observed, read = whole(table, predict), whole(table, source.read)
    times = table.times(source.time) if source.time else None
    groups = rows_of_groups(table, source.group)
    for name, rows in groups.items():
        if len(rows) < 2:
            of = f" of the group {name!r}" if source.group else ""
            raise ValueError(f"{source.path}, row {rows[0] + FIRST} is the only one{of}: there is nothing to predict")
    intervals = {name: since_row_before(table, source.time, times, rows) for name, rows in groups.items()}
    even = is_even(np.concatenate([own[1:] for own in intervals.values() if own is not None])) if source.time else True
    uses = {
        "time": source.time, "group": source.group, "predict": predict, "read": list(source.read), "left out": left_out
    }  # fmt: skip
    columns = {use: found for use, found in uses.items() if found}
    return StoredRollouts(
        tuple(
            Rollout(
                observed[rows],
                actions=read[rows[:-1]] if source.read else None,
                elapsed=None if even else intervals[name],
                name=f"{source.group} {name}" if source.group else source.path.name,
            )
            for name, rows in groups.items()
        ),
        tuple(predict),
        {"source": str(source.path), "columns": columns},
    )


def chosen(table: DataTable, source: TableSource) -> tuple[list[str], list[str]]:
    """Returns the columns to predict, and those that were left out because they never change or are no numbers."""
    if source.predict:
        return list(source.predict), []
    free = [name for name in table.columns if name not in (source.time, source.group, *source.read)]
    found = [name for name in free if table.is_numbers(name) and not is_constant(table.numbers(name))]
    if not found:
        raise ValueError(f"{source.path} has no column of numbers that change, so there is nothing to predict")
    return found, [name for name in free if name not in found]


def whole(table: DataTable, names: list[str] | tuple[str, ...]) -> NDArray[np.float64]:
    """Returns columns of numbers that change and lack nothing, (rows, columns)."""
    found = [table.numbers(name) for name in names]
    for name, values in zip(names, found, strict=True):
        if np.isnan(values).any():
            row, count = int(np.argmax(np.isnan(values))), int(np.isnan(values).sum())
            more = f", and so are {count - 1} more of this column" if count > 1 else ""
            raise ValueError(
                f"{table.path}, row {row + FIRST}: the value of the column {name!r} is missing{more}: remove these "
                "rows (a column of times tells the gaps), or leave the column out"
            )
        if is_constant(values):
            raise ValueError(f"{table.path}: the column {name!r} is {values[0]:g} in every row: leave it out")
    return np.stack(found, axis=1) if found else np.empty((table.rows, 0))


def is_constant(values: NDArray[np.float64]) -> bool:
    """Whether a column has one value, apart from what is missing."""
    known = values[~np.isnan(values)]
    return not len(known) or bool((known == known[0]).all())


def rows_of_groups(table: DataTable, group: str) -> dict[str, NDArray[np.intp]]:
    """Returns the numbers of each group's rows, groups in the order of their first rows; one group without a column."""
    if not group:
        return {"": np.arange(table.rows)}
    words, found = table.words(group), dict[str, list[int]]()
    for row, word in enumerate(words):
        if not word:
            raise ValueError(f"{table.path}, row {row + FIRST}: the group in the column {group!r} is missing")
        found.setdefault(word, []).append(row)
    return {word: np.array(rows) for word, rows in found.items()}


def since_row_before(
    table: DataTable, name: str, times: NDArray[np.float64] | None, rows: NDArray[np.intp]
) -> NDArray[np.float64] | None:
    """Returns the time since the row before for each row of a group; for the first, the median of the others."""
    if times is None:
        return None
    intervals = np.diff(times[rows])
    if (intervals <= 0).any():
        late = int(np.argmax(intervals <= 0))
        one, other = (int(rows[k]) + FIRST for k in (late, late + 1))
        what = "the same time as" if intervals[late] == 0 else "an earlier time than"
        raise ValueError(
            f"{table.path}: row {other} has {what} row {one} in the column {name!r}: sort the rows by time, and "
            "name the column of groups if there are several"
        )
    return np.concatenate([[np.median(intervals)], intervals])


def is_even(intervals: NDArray[np.float64]) -> bool:
    """Whether all intervals are equal."""
    return bool(np.ptp(intervals) <= EVEN * np.abs(intervals).max())
