"""Hand gestures: which of five phases a hand is in, from its velocities and accelerations.

The set: seven recordings of three people who tell a story in front of a depth camera ("Gesture Phase Segmentation", UCI
Machine Learning Repository; Madeo, Wagner and Peres, 2013). For each frame there are 32 velocities and accelerations of
hands and wrists, and the phase that an expert saw: rest, preparation, stroke, hold or retraction.

Files: `a1_va3.csv`, `a2_va3.csv`, `a3_va3.csv`, `b1_va3.csv`, `b3_va3.csv`, `c1_va3.csv` and `c3_va3.csv`, with 32
numbers and the letter of the phase in each row: D (rest), P, S, H, R. The `_raw.csv` files of positions are not needed.

The paper (Hasani et al., Liquid time-constant networks, 2021): overlapping windows of 32 frames, of which 75 % are
drawn for training, 10 % for validation and 15 % for test; inputs with zero mean and unit standard deviation; a class
for each frame, scored by accuracy.

Decided here, since the paper does not say: windows begin 16 frames apart, and the mean and standard deviation are those
of the training windows.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from ncp_control.series.data import SeriesData
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

FILES = tuple(f"{name}_va3.csv" for name in ("a1", "a2", "a3", "b1", "b3", "c1", "c3"))
PUBLISHER = "'Gesture Phase Segmentation' of the UCI Machine Learning Repository"
PHASES = ("rest", "preparation", "stroke", "hold", "retraction")
LETTERS = {"D": 0, "P": 1, "S": 2, "H": 3, "R": 4}
SIDES = ("left hand", "right hand", "left wrist", "right wrist")
INPUTS = (
    *(f"{kind} of the {side}, {axis}" for kind in ("velocity", "acceleration") for side in SIDES for axis in "xyz"),
    *(f"{kind} of the {side}" for kind in ("speed", "scalar acceleration") for side in SIDES),
)


def read_gesture(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the recordings of gestures; see the module for files and decisions."""
    paths = find_files(folder, FILES, PUBLISHER)
    recordings = [_recording(path) for path in paths]
    cuts = cut(recordings, stride)
    parts = random_parts(len(cuts), seed, "gesture")
    used = training_rows(recordings, cuts, parts)
    scale = scale_of([one.inputs[rows] for one, rows in zip(recordings, used, strict=True)])
    recordings = [RawSeries(one.name, scale.whitened(one.inputs), one.targets) for one in recordings]
    meta = {
        "files": [str(path) for path in paths],
        "parts": parts,
        "window": WINDOW,
        "stride": stride,
        "scale": {"inputs": scale.as_json()},
    }
    return SeriesData(window_series(recordings, cuts), INPUTS, ("phase",), PHASES, meta=meta)


def _recording(path: Path) -> RawSeries:
    """Reads one recording; its first row is skipped if it has names instead of values."""
    numbers, phases = Numbers(path), list[int]()
    for row, cells in read_rows(path, len(INPUTS) + 1):
        if row == 1 and cells[-1].strip() not in LETTERS:
            continue
        numbers.add(row, cells[:-1])
        phases.append(class_of(path, row, cells[-1], LETTERS))
    if not phases:
        raise ValueError(f"{path} has no row below its names")
    return RawSeries(path.name.partition("_")[0], numbers.matrix(), np.array(phases, np.int64))
