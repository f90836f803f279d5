"""Power: what a household draws, from its other meters, once a minute.

The set: "Individual household electric power consumption" of the UCI Machine Learning Repository (Hebrail and Berard,
2012): 2,075,259 minutes of one house near Paris, from December 2006 to November 2010.

File: `household_power_consumption.txt`: a first row of names, then nine cells in each row between semicolons; the
numbers that were not measured are `?`, or nothing.

The paper (Hasani et al., 2021): inputs are "secondary measurement such as the reactive power draw and sub-meterings";
all columns have zero mean and unit standard deviation; windows of 32 rows do not overlap; the active power of the same
row, scored by the squared error. The paper overwrites missing values with the one before; here they stay missing, and
the model or the one who trains it decides.

Decided here, since the paper does not say:
- A row is a minute, as in the file, although the paper calls its target hourly.
- Inputs are the reactive power, the voltage and the three sub-meterings. The current is left out, since current times
  voltage is the answer.
- Windows are drawn: 75 % for training, 10 % for validation and 15 % for test. Mean and standard deviation are those of
  the training windows.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import SeriesData
from scripts.public_series.files import Numbers, find_files, read_rows
from scripts.public_series.windows import (
    WINDOW,
    RawSeries,
    cut,
    random_parts,
    scale_of,
    training_rows,
    window_series,
)

FILES = ("household_power_consumption.txt",)
PUBLISHER = "'Individual household electric power consumption' of the UCI Machine Learning Repository"
TARGET = "Global_active_power"
INPUTS = ("Global_reactive_power", "Voltage", "Sub_metering_1", "Sub_metering_2", "Sub_metering_3")
HEADER = ("Date", "Time", TARGET, "Global_reactive_power", "Voltage", "Global_intensity", *INPUTS[2:])


def read_power(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the household's meters; see the module for the file and decisions."""
    (path,) = find_files(folder, FILES, PUBLISHER)
    values = _measured(path)
    target, inputs = HEADER.index(TARGET) - 2, [HEADER.index(name) - 2 for name in INPUTS]
    recording = RawSeries("power", values[:, inputs], values[:, [target]])
    cuts = cut([recording], stride)
    parts = random_parts(len(cuts), seed, "power")
    (used,) = training_rows([recording], cuts, parts)
    read, said = scale_of([recording.inputs[used]]), scale_of([recording.targets[used]])
    scaled = RawSeries(recording.name, read.whitened(recording.inputs), said.whitened(recording.targets))
    meta = {
        "files": [str(path)],
        "parts": parts,
        "window": WINDOW,
        "stride": stride,
        "scale": {"inputs": read.as_json(), "targets": said.as_json()},
    }
    return SeriesData(window_series([scaled], cuts), INPUTS, (TARGET,), meta=meta)


def _measured(path: Path) -> NDArray[np.float64]:
    """Returns all columns but the date and the time."""
    numbers = Numbers(path)
    for row, cells in read_rows(path, len(HEADER), mark=";", header=HEADER):
        numbers.add(row, cells[2:])
    return numbers.matrix()
