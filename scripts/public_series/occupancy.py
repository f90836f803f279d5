"""Room occupancy: whether somebody is in an office, from five sensors, once a minute.

The set: "Occupancy Detection" of the UCI Machine Learning Repository (Candanedo and Feldheim, 2016): temperature,
humidity, light, CO2 and humidity ratio of one office, and whether it is occupied.

Files: `datatraining.txt`, `datatest.txt` and `datatest2.txt`: a first row of seven names, and then eight cells in each
row, since the number of the row, which has no name, comes first.

The paper (Hasani et al., 2021): overlapping windows of 32 minutes, cut from the training and the test files apart;
inputs are normalised by the mean and standard deviation of the training file; 10 % of the training windows are for
validation; a class for each minute, scored by accuracy.

Decided here, since the paper does not say: both test files are the test set, windows begin 16 minutes apart, the
validation windows are drawn at random (so they share rows with training windows, and the test windows share none), and
the few intervals of 59 or 61 seconds count as a minute.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from ncp_control.series.data import SeriesData
from scripts.public_series.files import Numbers, class_of, find_files, read_rows
from scripts.public_series.windows import TEST, WINDOW, RawSeries, cut, random_parts, scale_of, window_series

FILES = ("datatraining.txt", "datatest.txt", "datatest2.txt")
PUBLISHER = "'Occupancy Detection' of the UCI Machine Learning Repository"
INPUTS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
HEADER = ("date", *INPUTS, "Occupancy")
ANSWERS = {"0": 0, "1": 1}


def read_occupancy(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the room's sensors; see the module for files and decisions."""
    paths = find_files(folder, FILES, PUBLISHER)
    recordings = [_recording(path) for path in paths]
    scale = scale_of([recordings[0].inputs])
    recordings = [RawSeries(one.name, scale.whitened(one.inputs), one.targets) for one in recordings]
    cuts = cut(recordings, stride)
    learnt = sum(k == 0 for k, _ in cuts)
    meta = {
        "files": [str(path) for path in paths],
        "parts": random_parts(learnt, seed, "occupancy", test=0) + [TEST] * (len(cuts) - learnt),
        "window": WINDOW,
        "stride": stride,
        "scale": {"inputs": scale.as_json()},
    }
    return SeriesData(window_series(recordings, cuts), INPUTS, ("occupancy",), ("empty", "occupied"), meta=meta)


def _recording(path: Path) -> RawSeries:
    numbers, answers = Numbers(path), list[int]()
    for row, cells in read_rows(path, len(HEADER) + 1, header=HEADER):
        numbers.add(row, cells[2:-1])
        answers.append(class_of(path, row, cells[-1], ANSWERS))
    return RawSeries(path.name.partition(".")[0], numbers.matrix(), np.array(answers, np.int64))
