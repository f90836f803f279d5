"""Rollouts from a table of measurements: which columns are observed, which act, which tell time and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.processes import bring
from ncp_control.base.text import shown
from ncp_control.data.rollout import Rollout, StoredRollouts
from ncp_control.data.tables import FIRST, SUFFIXES, DataTable, read_table, to_seconds

KEYS = ("time", "group", "predict", "read", "label", "value", "each", "split")
LISTS = ("predict", "read", "value")
HOW = "FILE.csv:time=COLUMN,group=COLUMN,predict=A+B,read=C+D, or label=COLUMN or value=A+B in place of predict"
SAYS = ("predict", "label", "value")  # a table has one of them at most
SPLITS = ("groups", "time", "none")
TIMES = ("time", "date", "datetime", "timestamp")  # names, in lower case, of columns that are likely to tell times
GROUPS = ("run", "episode", "id", "group", "series", "trial")  # and groups
ROWS_OF_A_BLOCK = 5  # at least, on average, of a column that seems to tell groups
EVEN = 1e-6  # intervals that differ by a smaller share than this are equal

Groups = dict[str, NDArray[np.intp]]  # the numbers of each group's rows


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
        tasks = [key for key in SAYS if getattr(self, key)]
        if len(tasks) > 1:
            raise ValueError(f"{self.path}: {tasks[0]}= and {tasks[1]}= are two tasks: name one of them")
        if self.each not in ("", "group"):
            raise ValueError(f"{self.path}: each= is group, for one label of a whole group, not {self.each!r}")
        if self.each and (not self.group or "predict" in tasks or not tasks):
            raise ValueError(
                f"{self.path}: each=group says that a whole group has one label or value: name the column of groups, "
                "and label= or value="
            )
        if self.split not in ("", *SPLITS):
            raise ValueError(f"{self.path}: split= is {', '.join(SPLITS[:-1])} or {SPLITS[-1]}, not {self.split!r}")
        if self.split == "groups" and not self.group:
            raise ValueError(f"{self.path}: split=groups needs a column of groups: name it, group=COLUMN")

    @cached_property
    def table(self) -> DataTable:
        """What is in the file, which is read once."""
        return read_table(self.path)


def table_source(source: str | PathLike[str] | TableSource) -> TableSource | None:
    """Reads the name of a table, with or without its columns; None for anything else."""
    if isinstance(source, TableSource):
        return source
    text = str(source)
    path, uses = parted(text)
    if not path.lower().endswith(SUFFIXES):
        return None
    columns: dict[str, str] = {}
    for part in uses[1:].split(",") if uses[1:] else []:
        key, equals, value = part.partition("=")
        if key not in KEYS or not equals or not value or key in columns:
            raise ValueError(f"{part!r} in {text!r} does not say what a column is for: write {HOW}")
        columns[key] = value
    lists = {key: tuple(columns.pop(key).split("+")) for key in LISTS if key in columns}
    return TableSource(Path(path), **columns, **lists)  # type: ignore[arg-type]


def parted(source: str) -> tuple[str, str]:
    """Splits the name of data into its file, folder or id, and what the columns of a table are for, with the colon
    before it."""
    for suffix in SUFFIXES:
        place = source.lower().rfind(suffix)  # the last one, because a folder's name may have it, too
        end = place + len(suffix)
        if place >= 0 and source[end : end + 1] in ("", ":"):
            return source[:end], source[end:]
    return source, ""


def bring_data(source: str, root: Path) -> str:
    """Does for the name of data what `bring` does for a path, and keeps what the columns of a table are for."""
    path, uses = parted(source)
    return bring(path, root) + uses


def uses_in_words(source: TableSource, columns: Mapping[str, str | list[str]]) -> str:
    """Says what the columns of a table are for, which are left out, and asks about those that seem to have a use.

    :param columns: by their uses, as reading the table has told them
    """
    table, questions = source.table, ""
    uses = {use: [names] if isinstance(names, str) else names for use, names in columns.items()}
    uses = {use: names for use, names in uses.items() if use not in ("left out", "each")}
    used = [name for names in uses.values() for name in names]
    uses["left out"] = [name for name in table.columns if name not in used]
    named = (*source.predict, *source.read, *source.value, source.label, source.time, source.group)
    free = [name for name in table.columns if name not in named]
    time = next((name for name in free if not source.time and _seems_time(table, name)), None)
    group = next((name for name in free if not source.group and name != time and _seems_group(table, name)), None)
    if group is not None:
        questions += (
            f"\n{shown(group)} looks like groups, and their rows are joined: write group={shown(group)} if it is"
        )
    if time is not None:
        questions += f"\n{shown(time)} looks like times: write time={shown(time)} if it is"
    words = "; ".join(f"{use} {', '.join(map(shown, names))}" for use, names in uses.items() if names)
    return f"{source.path}: {words}{questions}"


def _seems_time(table: DataTable, name: str) -> bool:
    """Whether a column without a use may tell times: by its name, or because its first cell is a date."""
    if name.lower() in TIMES:
        return True
    try:
        return not table.is_numbers(name) and bool(to_seconds(table.words(name)[0]))
    except ValueError:
        return False


def _seems_group(table: DataTable, name: str) -> bool:
    """Whether a column without a use may tell groups: by its name, or because it has one word or whole number in each
    of a few blocks of rows, another one in every block."""
    if name.lower() in GROUPS or name.lower().endswith(("_id", " id")):
        return True
    words = table.words(name)
    if table.is_numbers(name) and not all(word.lstrip("-").isdigit() for word in words):
        return False
    blocks = 1 + sum(before != after for before, after in pairwise(words))
    return 1 < blocks == len(set(words)) <= len(words) / ROWS_OF_A_BLOCK


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
    table = source.table
    used = (source.time, source.group, *source.read)
    predict, left_out = ([*source.predict], []) if source.predict else changing(table, used)
    check_uses(source, predict, source.read)
    observed, read = numbers_of(table, predict, complete=True), numbers_of(table, source.read, complete=True)
    groups = rows_of_groups(table, source.group)
    for name, rows in groups.items():
        if len(rows) < 2:
            of = f" of the group {name!r}" if source.group else ""
            raise ValueError(f"{source.path}, row {rows[0] + FIRST} is the only one{of}: there is nothing to predict")
    elapsed = elapsed_of(table, source.time, groups)
    uses = {
        "time": source.time, "group": source.group, "predict": predict, "read": list(source.read), "left out": left_out
    }  # fmt: skip
    columns = {use: names for use, names in uses.items() if names}
    return StoredRollouts(
        tuple(
            Rollout(
                observed[rows],
                actions=read[rows[:-1]] if source.read else None,  # after the last row comes no observation
                elapsed=None if elapsed is None else elapsed[rows],
                name=f"{source.group} {name}" if source.group else source.path.name,
            )
            for name, rows in groups.items()
        ),
        tuple(predict),
        {"source": str(source.path), "columns": columns},
        action_names=source.read,
    )


def check_uses(source: TableSource, targets: Sequence[str], read: Sequence[str]) -> None:
    """Refuses a column with two uses."""
    used = [name for name in (source.time, source.group, *targets, *read) if name]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(f"{source.path}: the column {name!r} is named twice, and has one use: name it once")


def changing(table: DataTable, used: Sequence[str], purpose: str = "to predict") -> tuple[list[str], list[str]]:
    """Returns, of the columns without another use, those of numbers that change, and the others.

    :param used: the columns with another use
    :param purpose: what the numbers are for, in the message if there are none
    """
    free = [name for name in table.columns if name not in used]
    chosen = [name for name in free if table.is_numbers(name) and not is_constant(table.numbers(name))]
    if not chosen:
        raise ValueError(f"{table.path} has no column of numbers that change, so there is nothing {purpose}")
    return chosen, [name for name in free if name not in chosen]


def numbers_of(table: DataTable, names: Sequence[str], complete: bool = False) -> NDArray[np.float64]:
    """Returns columns of numbers that change, (rows, columns), NaN where one is missing.

    :param complete: refuse a column that lacks numbers
    """
    columns = [table.numbers(name) for name in names]
    for name, values in zip(names, columns, strict=True):
        lacking = np.isnan(values)
        if complete and lacking.any():
            row, count = int(np.argmax(lacking)), int(lacking.sum())
            more = f", and so are {count - 1} more of this column" if count > 1 else ""
            raise ValueError(
                f"{table.path}, row {row + FIRST}: the value of the column {name!r} is missing{more}: remove these "
                "rows (a column of times tells the gaps), or leave the column out"
            )
        if is_constant(values):
            raise ValueError(f"{table.path}: the column {name!r} is {values[~lacking][0]:g} in every row: leave it out")
    return np.stack(columns, axis=1) if columns else np.empty((table.rows, 0))


def is_constant(values: NDArray[np.float64]) -> bool:
    """Whether a column has one value, apart from what is missing."""
    known = values[~np.isnan(values)]
    return not len(known) or bool((known == known[0]).all())


def rows_of_groups(table: DataTable, group: str) -> Groups:
    """Returns the numbers of each group's rows, groups in the order of their first rows; one group without a column."""
    if not group:
        return {"": np.arange(table.rows)}
    words, groups = table.words(group), dict[str, list[int]]()
    for row, word in enumerate(words):
        if not word:
            raise ValueError(f"{table.path}, row {row + FIRST}: the group in the column {group!r} is missing")
        groups.setdefault(word, []).append(row)
    return {word: np.array(rows) for word, rows in groups.items()}


def elapsed_of(table: DataTable, name: str, groups: Groups) -> NDArray[np.float64] | None:
    """Returns the time since the row before of every row of the table, None if all rows are equally far apart or no
    column has times.

    The first row of a group has the median of the group's intervals; a group of one row, the median of all intervals.
    """
    if not name:
        return None
    times = table.times(name)
    elapsed = np.full(table.rows, np.nan)
    for rows in groups.values():
        intervals = np.diff(times[rows])
        if (intervals <= 0).any():
            late = int(np.argmax(intervals <= 0))
            before, after = (int(rows[k]) + FIRST for k in (late, late + 1))
            what = "the same time as" if intervals[late] == 0 else "an earlier time than"
            raise ValueError(
                f"{table.path}: row {after} has {what} row {before} in the column {name!r}: sort the rows by time, and "
                "name the column of groups if there are several"
            )
        if len(intervals):
            elapsed[rows] = np.concatenate([[np.median(intervals)], intervals])
    known = elapsed[~np.isnan(elapsed)]
    if not len(known) or np.ptp(known) <= EVEN * np.abs(known).max():
        return None
    return np.where(np.isnan(elapsed), np.median(known), elapsed)
