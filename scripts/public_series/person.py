"""Person activity: what a person at home does, from four tags that tell where they are.

The set: "Localization Data for Person Activity" of the UCI Machine Learning Repository (Kaluza et al., 2010): 164,860
readings in 25 recordings of five people. Each reading is the position of one tag: at an ankle, the chest or the belt.

File: `ConfLongDemo_JSI.txt`: recording, tag, time in units of 100 ns, date, x, y, z and activity in each row, with no
row of names.

Both settings of the paper (Hasani et al., 2021) read each reading as seven numbers: which of the four tags (0 or 1
each), and x, y, z as they are; leave the times out; say for each reading one of seven classes, into which Rubanova,
Chen and Duvenaud (Latent ODEs for irregularly-sampled time series, 2019) packed the eleven activities; and are scored
by accuracy.

`person-1`, the first setting: the 25 recordings are cut into overlapping windows of 32 readings. Decided here, since
the paper does not say: windows begin 16 readings apart and are drawn, 75 % for training, 10 % for validation and 15 %
for test.

`person-2`, the second setting: the sequences and the test set of Rubanova et al., and 10 % of their training set for
validation. A sequence there is 50 points in time, and begins 25 points after the one before; readings within the same
100,000 units of time are one point; the last sequence must end before the recording does. A random fifth, drawn by
NumPy's old generator with the seed 42, is the test set. They give this in their published program, which then averages
the readings of a point and draws sequences repeatedly. Decided here, since the paper only calls it "the same data in a
different format": every sequence once, its rows are the single readings of its 50 points (so there may be more than
50), and the validation sequences are drawn by the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import Series, SeriesData
from scripts.public_series.files import Numbers, class_of, find_files, number_in, read_rows
from scripts.public_series.windows import TEST, WINDOW, RawSeries, cut, random_parts, window_series

FILES = ("ConfLongDemo_JSI.txt",)
PUBLISHER = "'Localization Data for Person Activity' of the UCI Machine Learning Repository"
COLUMNS = 8
TAGS = {"010-000-024-033": 0, "010-000-030-096": 1, "020-000-033-111": 2, "020-000-032-221": 3}
INPUTS = ("left ankle", "right ankle", "chest", "belt", "x", "y", "z")
CLASSES = ("walking", "falling", "lying", "sitting", "standing up", "on all fours", "sitting on the ground")
ACTIVITIES = {
    "walking": 0,
    "falling": 1,
    "lying": 2,
    "lying down": 2,
    "sitting": 3,
    "sitting down": 3,
    "standing up from lying": 4,
    "standing up from sitting": 4,
    "standing up from sitting on the ground": 4,
    "standing up from sit on grnd": 4,  # the same activity, as some programs write it
    "on all fours": 5,
    "sitting on the ground": 6,
}
UNITS, POINTS, APART = 1e5, 50, 25  # of person-2: units of time in a point, points in a sequence, points between two
TEST_SEED, TRAIN_SHARE = 42, 0.8


@dataclass(frozen=True)
class Timed:
    """A recording, and the time of each of its readings, (T,)."""

    recording: RawSeries
    times: NDArray[np.float64]


def read_person_1(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the first setting; see the module for the file and decisions."""
    path, timed = _read(folder)
    recordings = [one.recording for one in timed]
    cuts = cut(recordings, stride)
    parts = random_parts(len(cuts), seed, "person-1")
    meta = {"files": [str(path)], "parts": parts, "window": WINDOW, "stride": stride}
    return SeriesData(window_series(recordings, cuts), INPUTS, ("activity",), CLASSES, meta=meta)


def read_person_2(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the second setting; see the module for the file and decisions. The stride is not used."""
    path, timed = _read(folder)
    series = tuple(series for one in timed for series in _sequences(one))
    learnt = int(TRAIN_SHARE * len(series))
    order = np.random.RandomState(TEST_SEED).permutation(len(series))
    parts = np.full(len(series), TEST, object)
    parts[np.sort(order[len(series) - learnt :])] = random_parts(learnt, seed, "person-2", test=0)
    meta = {"files": [str(path)], "parts": parts.tolist(), "window": POINTS, "stride": APART}
    return SeriesData(series, INPUTS, ("activity",), CLASSES, meta=meta)


def _sequences(timed: Timed) -> list[Series]:
    """Returns the sequences of 50 points in time of one recording."""
    point = np.rint((timed.times - timed.times[0]) / UNITS)
    begins = np.flatnonzero(np.concatenate([[True], point[1:] != point[:-1]]))
    starts = range(0, len(begins) - POINTS, APART)
    one = timed.recording
    return [
        Series(
            one.inputs[begins[k] : begins[k + POINTS]],
            one.targets[begins[k] : begins[k + POINTS]],
            name=f"{one.name}, points {k} to {k + POINTS - 1}",
        )
        for k in starts
    ]


def _read(folder: str | PathLike[str]) -> tuple[Path, list[Timed]]:
    """Returns the file, and each run of rows that name one recording."""
    (path,) = find_files(folder, FILES, PUBLISHER)
    positions, times = Numbers(path), list[float]()
    names, tags, activities = list[str](), list[int](), list[int]()
    for row, (name, tag, time, _, x, y, z, activity) in read_rows(path, COLUMNS):
        names.append(name)
        tags.append(class_of(path, row, tag, TAGS))
        times.append(number_in(path, row, time))
        positions.add(row, (x, y, z))
        activities.append(class_of(path, row, activity, ACTIVITIES))
    inputs = np.concatenate([np.eye(len(TAGS))[tags], positions.matrix()], axis=1)
    targets, told = np.array(activities, np.int64), np.array(times)
    bounds = [0, *(k for k in range(1, len(names)) if names[k] != names[k - 1]), len(names)]
    return path, [
        Timed(RawSeries(names[start], inputs[start:end], targets[start:end]), told[start:end])
        for start, end in pairwise(bounds)
    ]
