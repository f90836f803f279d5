"""Cutting recordings into windows, sharing these among training, validation and test, and normalising them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import Series

WINDOW = 32  # rows
TRAIN, VALID, TEST = PARTS = ("train", "valid", "test")
VALID_SHARE, TEST_SHARE = 0.10, 0.15  # of all windows, where a set has no test set of its own


@dataclass(frozen=True)
class RawSeries:
    """Rows that were measured one after another.

    :param name: for messages
    :param inputs: what is read, (T, I)
    :param targets: a class for each row (T,), or numbers (T, O)
    """

    name: str
    inputs: NDArray[np.float64]
    targets: NDArray[Any]


class Cut(NamedTuple):
    """Where a window begins: in which recording, and at which row."""

    recording: int
    start: int


class Scale(NamedTuple):
    """The mean and the standard deviation of every column, (I,); a column that never changes has 1 for the latter."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def whitened(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values of zero mean and unit standard deviation."""
        return (values - self.mean) / self.deviation

    def as_json(self) -> dict[str, list[float]]:
        """Returns both as lists."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}


def cut(recordings: Sequence[RawSeries], stride: int, length: int = WINDOW) -> list[Cut]:
    """Returns all windows of `length` rows, which begin `stride` rows apart; what is left at an end is left out."""
    if stride < 1:
        raise ValueError(f"the stride is {stride}, and must be at least 1 row")
    return [
        Cut(k, start)
        for k, recording in enumerate(recordings)
        for start in range(0, len(recording.inputs) - length + 1, stride)
    ]


def random_parts(count: int, seed: int, of: str, test: float = TEST_SHARE) -> list[str]:
    """Returns the part of each of `count` series, drawn at random: 10 % validation, `test` test, the rest training.

    :param of: the set, for the message when there are too few series
    """
    least = 3 if test else 2
    if count < least:
        raise ValueError(f"the files of {of} give {count} series, and {least} or more are needed to share them out")
    order = np.random.default_rng(seed).permutation(count)
    valid = max(1, round(VALID_SHARE * count))
    tested = max(1, round(test * count)) if test else 0
    parts = [TRAIN] * count
    for place, k in enumerate(order[: valid + tested].tolist()):
        parts[k] = VALID if place < valid else TEST
    return parts


def scale_of(values: Sequence[NDArray[np.float64]]) -> Scale:
    """Returns the scale of all rows of several matrices; missing values do not count."""
    rows = np.concatenate(values)
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, rows, 0.0).sum(0) / count
    deviation = np.sqrt((np.where(known, rows - mean, 0.0) ** 2).sum(0) / count)
    return Scale(mean, np.where(deviation > 0, deviation, 1.0))


def training_rows(
    recordings: Sequence[RawSeries], cuts: Sequence[Cut], parts: Sequence[str], length: int = WINDOW
) -> list[NDArray[np.bool_]]:
    """Returns which rows of each recording belong to a window of the training part."""
    used = [np.zeros(len(recording.inputs), bool) for recording in recordings]
    for (k, start), part in zip(cuts, parts, strict=True):
        if part == TRAIN:
            used[k][start : start + length] = True
    return used


def window_series(recordings: Sequence[RawSeries], cuts: Sequence[Cut], length: int = WINDOW) -> tuple[Series, ...]:
    """Returns the windows as series; they share the memory of their recordings."""
    return tuple(
        Series(
            recordings[k].inputs[start : start + length],
            recordings[k].targets[start : start + length],
            name=f"{recordings[k].name}, rows {start} to {start + length - 1}",
        )
        for k, start in cuts
    )
