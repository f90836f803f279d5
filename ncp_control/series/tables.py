"""Series from a table: a class or numbers for each row, for a whole group, or the numbers of the next row."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.table_rollouts import (
    HOW,
    Groups,
    TableSource,
    changing,
    check_uses,
    elapsed_of,
    numbers_of,
    rows_of_groups,
    table_source,
)
from ncp_control.data.tables import FIRST, DataTable, to_number
from ncp_control.series.data import NO_CLASS, Series, SeriesData

NO_LABEL = ("", "?", "na", "n/a", "nan")  # in lower case; "none" and "null" may be classes
MOST_NUMBERS = 100  # a column with more different numbers than this is a quantity, and no label

Floats = NDArray[np.float64]


def is_series(source: str | PathLike[str] | TableSource) -> bool:
    """Whether the name of a table asks for series: it names a label or a value, or what it predicts lacks cells."""
    spec = table_source(source)
    if spec is None or not spec.path.is_file():
        return False
    if spec.label or spec.value or spec.split:
        return True
    table = spec.table
    names = (*(spec.predict or changing(table, (spec.time, spec.group, *spec.read))[0]), *spec.read)
    return any(name in table.columns and table.is_numbers(name) and np.isnan(table.numbers(name)).any()
               for name in names)  # fmt: skip


def read_series(source: str | PathLike[str] | TableSource) -> SeriesData:
    """Reads a table, `.csv`, `.tsv` or `.parquet`, with what its columns are for.

    - `label=COLUMN`: a class for each row. An empty cell, or ?, na, n/a or nan, is a class that is not known.
    - `value=A+B`: numbers for each row.
    - `each=group`: a whole group has one label or value, which is the same in all of its rows.
    - `predict=A+B`: the numbers of the next row, read from these columns and those of `read`. Without label and value
      all columns of numbers that change are predicted.
    - `read=C+D`: what is read; for a label or a value, by default all other columns of numbers that change.
    - `time=`, `group=` as in `Rollouts.load`, and `split=groups`, `split=time` or `split=none` (see `split_series`).

    Inputs (T, I) and numbers to predict (T, O) are NaN where a cell is missing. `elapsed` (T,) is the time since the
    row before; if the numbers of the next row are to be predicted, the time until that row.

    :param source: such as "walks.csv:label=activity,group=person,time=t"
    """
    spec = table_source(source)
    if spec is None:
        raise ValueError(f"{str(source)!r} is no table: write {HOW}")
    table = spec.table
    targets = [spec.label] if spec.label else list(spec.value)
    is_next = not targets
    read, left_out = read_columns(table, spec, targets)
    if is_next:
        targets = read[: len(read) - len(spec.read)]
    check_uses(spec, targets, [] if is_next else read)
    inputs = numbers_of(table, read)
    groups = rows_of_groups(table, spec.group)
    elapsed = elapsed_of(table, spec.time, groups)
    classes: tuple[str, ...] = ()
    say: NDArray[Any]
    if spec.label:
        say, classes = classes_of(table, spec)
    else:
        say = numbers_of(table, targets)
    series = tuple(
        piece
        for name, rows in groups.items()
        if (piece := one_series(table, spec, name, rows, inputs, say, elapsed, is_next)) is not None
    )
    if not series:
        raise ValueError(f"{spec.path}: every group has a single row, so there is no next row to predict")
    if classes:
        check_rare(table, spec, groups, say, classes)
    missing = {
        name: float(np.isnan(column).mean())
        for name, column in zip(read, inputs.T, strict=True)
        if np.isnan(column).any()
    }
    uses = {
        "time": spec.time, "group": spec.group, "label": spec.label, "value": list(spec.value),
        "predict": targets if is_next else [], "read": list(spec.read) if is_next else read,
        "each": spec.each, "left out": left_out,
    }  # fmt: skip
    meta: dict[str, Any] = {
        "source": str(spec.path), "columns": {use: names for use, names in uses.items() if names},
        "rows": table.rows, "groups": len(groups), "missing": missing,
        "split": spec.split or ("time" if len(series) < 3 and not spec.each else "groups"),
    }  # fmt: skip
    # Fewer than three groups cannot be split by groups. Nobody has asked for a split in time, so it is said.
    if not spec.split and meta["split"] == "time":
        count = "no column of groups" if not spec.group else f"{len(series)} group{'s' * (len(series) > 1)}"
        meta["said"] = f"{spec.path} has {count}: the last rows are for testing, and those before for validation"
    if is_next:
        meta["next"] = True
    return SeriesData(series, tuple(read), tuple(targets), classes, bool(spec.each), meta)


def read_columns(table: DataTable, source: TableSource, targets: list[str]) -> tuple[list[str], list[str]]:
    """Returns the columns that are read, and those that were left out because they never change or are no numbers."""
    if not targets and source.predict:
        return [*source.predict, *source.read], []
    if targets and source.read:
        return list(source.read), []
    used = (source.time, source.group, *targets, *source.read)
    for name in table.columns:
        if name not in used:
            check_text(table, name)
    chosen, left_out = changing(table, used, "from which to predict the label or value" if targets else "to predict")
    return [*chosen, *([] if targets else source.read)], left_out


def check_text(table: DataTable, name: str) -> None:
    """Refuses a column of numbers with a few cells of text in it, which would be left out by mistake."""
    cells = table.column(name)
    if isinstance(cells, np.ndarray):
        return
    values = [to_number(cell) for cell in cells]
    numbers = sum(value is not None and not np.isnan(value) for value in values)
    if 0 < values.count(None) < numbers:
        table.numbers(name)  # which names the cell


def one_series(
    table: DataTable, source: TableSource, name: str, rows: NDArray[np.intp], inputs: Floats, say: NDArray[Any],
    elapsed: Floats | None, is_next: bool,
) -> Series | None:  # fmt: skip
    """Returns the series of one group; None if the next row is to be told and the group has only one."""
    title = f"{source.group} {name}" if source.group else table.path.name
    if is_next:
        if len(rows) < 2:
            return None
        return Series(inputs[rows[:-1]], say[rows[1:]], None if elapsed is None else elapsed[rows[1:]], title)
    targets = say[rows]
    if source.each:
        targets = one_target(table, source, name, rows, targets)
    return Series(inputs[rows], targets, None if elapsed is None else elapsed[rows], title)


def one_target(
    table: DataTable, source: TableSource, group: str, rows: NDArray[np.intp], targets: NDArray[Any]
) -> NDArray[Any]:
    """Returns the one class (1,), or the one row of numbers (1, O), of a group."""
    columns = [source.label] if source.label else list(source.value)
    target = []
    for name, values in zip(columns, targets.reshape(len(rows), -1).T, strict=True):
        known = np.flatnonzero(values != NO_CLASS if source.label else ~np.isnan(values))
        differing = next((k for k in known if values[k] != values[known[0]]), None)
        if differing is not None:
            words = table.words(name)
            first, second = int(rows[known[0]]), int(rows[differing])
            raise ValueError(
                f"{table.path}, row {second + FIRST}: the group {group!r} has {words[second]!r} in the column "
                f"{name!r}, and {words[first]!r} in row {first + FIRST}: with each=group all rows of a group say the "
                "same"
            )
        target.append(values[known[0]] if len(known) else (NO_CLASS if source.label else np.nan))
    return np.array(target, targets.dtype) if source.label else np.array([target], np.float64)


def classes_of(table: DataTable, source: TableSource) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Returns the number of every row's class, (rows,), and the names of the classes in the order of their numbers."""
    name = source.label
    words = ["" if word.lower() in NO_LABEL else word for word in table.words(name)]
    seen = sorted({word for word in words if word})
    if not seen:
        raise ValueError(f"{table.path}: no row has a label in the column {name!r}")
    numbers = [to_number(word) for word in seen]
    if all(number is not None for number in numbers):
        if len(seen) > MOST_NUMBERS:
            raise ValueError(
                f"{table.path}: the column {name!r} has {len(seen)} different numbers, which is a quantity and no "
                f"label: write value={name}"
            )
        # by value, so that 10 comes after 9 and not after 1
        seen = [word for _, word in sorted(zip(numbers, seen, strict=True), key=lambda pair: (pair[0] or 0.0, pair[1]))]
    if len(seen) == 1:
        raise ValueError(f"{table.path}: the column {name!r} is {seen[0]!r} in every row: there is nothing to predict")
    place = {word: k for k, word in enumerate(seen)} | {"": NO_CLASS}
    return np.array([place[word] for word in words], np.int64), tuple(seen)


def check_rare(
    table: DataTable, source: TableSource, groups: Groups, numbers: NDArray[Any], classes: tuple[str, ...]
) -> None:
    """Refuses a class that only one row has, or only one group if a whole group has one label."""
    name = source.label
    for k, word in enumerate(classes):
        rows = np.flatnonzero(numbers == k)
        if source.each:
            having = [group for group, own in groups.items() if (numbers[own] == k).any()]
            if len(having) == 1:
                raise ValueError(
                    f"{table.path}, row {rows[0] + FIRST}: only the group {having[0]!r} has the label {word!r} in the "
                    f"column {name!r}, and a model cannot be tested on what it has learnt from: remove the group"
                )
        elif len(rows) == 1:
            raise ValueError(
                f"{table.path}, row {rows[0] + FIRST} is the only one with the label {word!r} in the column {name!r}, "
                "and a model cannot be tested on what it has learnt from: remove the row"
            )
