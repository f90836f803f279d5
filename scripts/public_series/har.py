"""Human activity: which of six things a person does, from 561 features of a smartphone's motion.

The set: "Human Activity Recognition Using Smartphones" of the UCI Machine Learning Repository (Anguita et al., 2013):
30 people, 21 of them for training and 9 for test. Each row describes 2.56 seconds and begins 1.28 seconds after the one
before.

Files: `train/X_train.txt`, `train/y_train.txt`, `train/subject_train.txt`, and the same three of `test/`: 561 numbers,
one class from 1 to 6, and one person's number in each row, separated by spaces. The folder is the one that has `train`
and `test` in it.

The paper (Hasani et al., 2021): overlapping windows of 32 rows within the publishers' training and test sets; 10 % of
the training windows are for validation; a class for each row, scored by accuracy. The publishers' scaling to [-1, 1]
stays.

Decided here, since the paper does not say: a window has rows of one person only, windows begin 16 rows apart, and the
validation windows are drawn at random.
"""

from __future__ import annotations

from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np

from ncp_control.series.data import SeriesData
from scripts.public_series.files import SPACES, class_of, find_files, read_matrix, read_rows
from scripts.public_series.windows import TEST, WINDOW, RawSeries, cut, random_parts, window_series

FILES = tuple(f"{part}/{kind}_{part}.txt" for part in ("train", "test") for kind in ("X", "y", "subject"))
PUBLISHER = "'Human Activity Recognition Using Smartphones' of the UCI Machine Learning Repository"
FEATURES = 561
CLASSES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying")
NUMBERS = {str(k + 1): k for k in range(len(CLASSES))}


def read_har(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the activities; see the module for files and decisions."""
    paths = find_files(folder, FILES, PUBLISHER)
    train, test = _recordings(*paths[:3]), _recordings(*paths[3:])
    learnt, tested = cut(train, stride), cut(test, stride)
    meta = {
        "files": [str(path) for path in paths],
        "parts": random_parts(len(learnt), seed, "har", test=0) + [TEST] * len(tested),
        "window": WINDOW,
        "stride": stride,
    }
    series = window_series(train, learnt) + window_series(test, tested)
    return SeriesData(series, tuple(f"feature {k + 1}" for k in range(FEATURES)), ("activity",), CLASSES, meta=meta)


def _recordings(features: Path, activities: Path, people: Path) -> list[RawSeries]:
    """Returns one recording for each run of rows of one person."""
    inputs = read_matrix(features, FEATURES, mark=SPACES)
    targets = np.array(
        [class_of(activities, row, cells[0], NUMBERS) for row, cells in read_rows(activities, 1, mark=SPACES)], np.int64
    )
    who = [cells[0] for _, cells in read_rows(people, 1, mark=SPACES)]
    for path, count in ((activities, len(targets)), (people, len(who))):
        if count != len(inputs):
            raise ValueError(f"{path} has {count} rows, and {features} has {len(inputs)}: they belong to each other")
    bounds = [0, *(k for k in range(1, len(who)) if who[k] != who[k - 1]), len(who)]
    return [RawSeries(f"person {who[start]}", inputs[start:end], targets[start:end]) for start, end in pairwise(bounds)]
