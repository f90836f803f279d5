"""How series are divided into parts for training, validation and testing."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import NO_CLASS, Series, SeriesData

PARTS = ("train", "valid", "test")
VALID, TEST = 0.10, 0.15  # shares of the series, or of the rows of each
DRAWS = 200  # how often the series are drawn anew until the training part has every class


class SeriesSplit(NamedTuple):
    """Three parts of series without a row in common."""

    train: SeriesData
    valid: SeriesData
    test: SeriesData


def split_series(data: SeriesData, seed: int = 0) -> SeriesSplit:
    """Divides series as their source says.

    - `meta["parts"]`, where the source names the part of every series, is followed.
    - `meta["split"] == "time"`: of each series the last 15 % of the rows are for testing, and the 10 % before them for
      validation. Series of fewer than 3 rows are for training.
    - Otherwise whole series are drawn: 15 % for testing, 10 % for validation, and the others for training. If a whole
      series has one class, each class is divided like this; if rows have classes, the series are drawn anew until the
      training part has every class.

    :param data: all series
    :param seed: the drawing of series follows from it
    """
    if (parts := data.meta.get("parts")) is not None:
        return SeriesSplit(*(_of(data, [k for k, name in enumerate(parts) if name == part]) for part in PARTS))
    if data.meta.get("split") == "none":
        raise ValueError("split=none keeps all rows in one part, to be evaluated; a fit needs three parts")
    split = _in_time(data) if data.meta.get("split") == "time" else _by_series(data, seed)
    for part, own in zip(PARTS, split, strict=True):
        if not any(is_known(series.targets).any() for series in own.series):
            what = "class" if data.classes else "number"
            raise ValueError(
                f"{source_of(data)}: no row of the {part} part has a known {what} of {', '.join(data.targets)}: "
                "give more rows, or split otherwise (split=time or split=groups)"
            )
    check_classes(split, data)
    return split


def test_part(data: SeriesData) -> SeriesData:
    """Returns the part of series on which a model is evaluated: all of them with `split=none`."""
    return data if data.meta.get("split") == "none" else split_series(data).test


def source_of(data: SeriesData) -> str:
    """Returns where series are from, for messages."""
    return str(data.meta.get("source", "the series"))


def is_known(targets: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Whether targets are known: classes (T,) or numbers (T, O)."""
    if np.issubdtype(targets.dtype, np.integer):
        return np.asarray(targets != NO_CLASS)
    return ~np.isnan(targets.astype(np.float64))


def check_classes(parts: SeriesSplit, data: SeriesData) -> None:
    """Refuses classes that the training part lacks."""
    if not data.classes:
        return
    learnt = classes_in(parts.train)
    for part, own in zip(PARTS[1:], parts[1:], strict=True):
        for number in sorted(classes_in(own) - learnt):
            series = next(series for series in own.series if (series.targets == number).any())
            where = f" ({series.name})" if series.name else ""
            raise ValueError(
                f"{source_of(data)}: the class {data.classes[number]!r} of the column {data.targets[0]!r} is in the "
                f"{part} part alone{where}, so that no model can learn it: remove its rows, or split otherwise "
                "(split=time or split=groups)"
            )


def classes_in(data: SeriesData) -> set[int]:
    """Returns the numbers of the classes that series have."""
    return {int(number) for series in data.series for number in np.unique(series.targets)} - {NO_CLASS}


def _of(data: SeriesData, numbers: list[int]) -> SeriesData:
    """Returns some of the series; the names of all parts, which no longer fit, are left out."""
    meta = {key: value for key, value in data.meta.items() if key != "parts"}
    return replace(data, series=tuple(data.series[k] for k in numbers), meta=meta)


def sizes(count: int) -> tuple[int, int, int]:
    """Divides a count of at least 3 into training, validation and testing, 75 : 10 : 15, at least 1 each."""
    test = max(1, round(TEST * count))
    valid = max(1, round(VALID * count))
    return count - valid - test, valid, test


def _by_series(data: SeriesData, seed: int) -> SeriesSplit:
    count = len(data.series)
    if count < 3:
        raise ValueError(
            f"{source_of(data)} has {count} series, and a split by groups needs 3: split=time divides the rows of each"
        )
    random = np.random.default_rng(seed)
    if data.whole and data.classes:
        kinds = [int(series.targets[0]) for series in data.series]
        order = random.permutation(count)
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        shares = _shares_of_classes([[int(k) for k in order if kinds[k] == kind] for kind in sorted(set(kinds))])
        for own in shares:
            for part, numbers in zip(parts, own, strict=True):
                part += numbers
        return SeriesSplit(*(_of(data, sorted(part)) for part in parts))
    wanted = classes_in(data) if data.classes else set()
    for _ in range(DRAWS):
        order = random.permutation(count)
        train, valid, _ = sizes(count)
        split = SeriesSplit(*(_of(data, sorted(map(int, part))) for part in np.split(order, [train, train + valid])))
        if not data.classes or classes_in(split.train) == wanted:
            break
    return split


def _shares_of_classes(kinds: list[list[int]]) -> list[tuple[list[int], list[int], list[int]]]:
    """Divides each class 75 : 10 : 15. The total decides how many are for validation and testing; they are taken from
    the classes in turn, the largest first, and each class keeps one series for training."""
    count = sum(map(len, kinds))
    _, valid, test = sizes(count)
    taken: list[tuple[list[int], list[int], list[int]]] = [([], [], []) for _ in kinds]
    left = [list(own) for own in kinds]
    for part, wanted in ((2, test), (1, valid)):
        for _ in range(wanted):
            # the class of which this part has the least, as a share of the class, gives one
            able = [k for k in range(len(kinds)) if len(left[k]) > 1]
            if not able:
                break
            k = min(able, key=lambda k: ((len(taken[k][part]) + 1) / len(kinds[k]), k))
            taken[k][part].append(left[k].pop())
    for k, own in enumerate(left):
        taken[k][0].extend(own)
    return taken


def _in_time(data: SeriesData) -> SeriesSplit:
    if data.whole:
        raise ValueError(f"{source_of(data)}: split=time divides rows, and each=group says that a group is one whole")
    ahead = 1 if data.meta.get("next") else 0  # a row whose target is in the next part belongs to neither
    pieces: tuple[list[Series], list[Series], list[Series]] = ([], [], [])
    for series in data.series:
        rows = len(series.inputs)
        if rows < 3 + 2 * ahead:  # a row for each part, and those lost between two parts
            pieces[0].append(series)
            continue
        train, valid, _ = sizes(rows)
        for part, (first, last) in enumerate(
            ((0, train - ahead), (train, train + valid - ahead), (train + valid, rows))
        ):
            if last > first:
                pieces[part].append(rows_of(series, first, last))
    return SeriesSplit(*(replace(data, series=tuple(own)) for own in pieces))


def rows_of(series: Series, first: int, last: int) -> Series:
    """Returns the rows of a series from `first` up to, and without, `last`."""
    elapsed = None if series.elapsed is None else series.elapsed[first:last]
    return replace(series, inputs=series.inputs[first:last], targets=series.targets[first:last], elapsed=elapsed)


def with_classes(data: SeriesData, classes: tuple[str, ...]) -> SeriesData:
    """Returns series whose classes have the numbers of other, known classes; a class that is not among them is refused.

    :param data: series, such as those of a second table
    :param classes: the names of a model's classes
    """
    if not data.classes or not classes or data.classes == classes:
        return data
    unknown = [name for name in data.classes if name not in classes]
    if unknown:
        raise ValueError(
            f"{source_of(data)}: the class {unknown[0]!r} is none of the model's, which are {', '.join(classes)}"
        )
    numbers = np.array([classes.index(name) for name in data.classes])
    series = tuple(
        replace(one, targets=np.where(one.targets == NO_CLASS, NO_CLASS, numbers[one.targets])) for one in data.series
    )
    return replace(data, series=series, classes=classes)
