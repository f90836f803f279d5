"""Ozone days: whether a day has too much ozone for eight hours, from its weather.

The set: "Ozone Level Detection" of the UCI Machine Learning Repository (Zhang and Fan, 2008): 2,534 days of the Houston
area, from 1998 to 2004, of which 160 are ozone days.

File: `eighthr.data`: the date, 72 numbers (hourly wind and temperature, and the air aloft) and the class, 0 or 1, in
each row; `?` is missing. It has no row of names.

The paper (Hasani et al., 2021): overlapping windows of 32 days, of which 75 % are drawn for training, 10 % for
validation and 15 % for test; a class for each day, scored by F1 of the ozone days; an ozone day weighs 15 times as much
in the loss. The paper counts 73 features, and sets missing ones to zero; here they stay missing, and the model or the
one who trains it decides.

Decided here, since the paper does not say: the 23 days without a row become days whose inputs and class are missing, so
that a window lasts 32 days; windows begin 4 days apart; inputs have zero mean and unit standard deviation over the
training windows. `meta["class_weights"]` has the weights of the two classes.
"""

from __future__ import annotations

from datetime import date, timedelta
from os import PathLike
from pathlib import Path

import numpy as np

from ncp_control.series.data import NO_CLASS, SeriesData
from scripts.public_series.files import Numbers, class_of, find_files, read_rows
from scripts.public_series.windows import (
    WINDOW,
    RawSeries,
    cut,
    random_parts,
    scale_of,
    training_rows,
    window_series,
)

FILES = ("eighthr.data",)
PUBLISHER = "'Ozone Level Detection' of the UCI Machine Learning Repository"
HOURS = range(24)
INPUTS = (
    *(f"WSR{hour}" for hour in HOURS), "WSR_PK", "WSR_AV",
    *(f"T{hour}" for hour in HOURS), "T_PK", "T_AV",
    *(f"{kind}{level}" for level in (85, 70, 50) for kind in ("T", "RH", "U", "V", "HT")),
    "KI", "TT", "SLP", "SLP_", "Precp",
)  # fmt: skip
CLASSES = ("normal day", "ozone day")
WEIGHTS = [1.0, 15.0]
ANSWERS = {"0.": 0, "1.": 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1}
LONGEST = 366 * 100  # days


def read_ozone(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the ozone days; see the module for the file and decisions."""
    (path,) = find_files(folder, FILES, PUBLISHER)
    recording = _recording(path)
    cuts = cut([recording], stride)
    parts = random_parts(len(cuts), seed, "ozone")
    (used,) = training_rows([recording], cuts, parts)
    scale = scale_of([recording.inputs[used]])
    scaled = RawSeries(recording.name, scale.whitened(recording.inputs), recording.targets)
    meta = {
        "files": [str(path)],
        "parts": parts,
        "window": WINDOW,
        "stride": stride,
        "scale": {"inputs": scale.as_json()},
        "class_weights": WEIGHTS,
    }
    return SeriesData(window_series([scaled], cuts), INPUTS, ("ozone",), CLASSES, meta=meta)


def _recording(path: Path) -> RawSeries:
    """Returns all days from the first to the last."""
    numbers, days, answers = Numbers(path), list[date](), list[int]()
    for row, cells in read_rows(path, len(INPUTS) + 2):
        days.append(_day(path, row, cells[0]))
        numbers.add(row, cells[1:-1])
        answers.append(class_of(path, row, cells[-1], ANSWERS))
    first = min(days)
    place = np.array([(day - first) // timedelta(days=1) for day in days])
    if (length := int(place.max()) + 1) > LONGEST:
        raise ValueError(f"{path}: its dates are more than a hundred years apart, so one of them is wrong")
    inputs, targets = np.full((length, len(INPUTS)), np.nan), np.full(length, NO_CLASS, np.int64)
    inputs[place], targets[place] = numbers.matrix(), answers
    return RawSeries("ozone", inputs, targets)


def _day(path: Path, row: int, cell: str) -> date:
    """Reads a date as it is written in America."""
    try:
        month, day, year = map(int, cell.split("/"))
        return date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{path}, row {row}: {cell!r} is not a date such as 12/31/1998") from error
