"""Traffic: how many vehicles pass on a highway in an hour, from the weather and the time.

The set: "Metro Interstate Traffic Volume" of the UCI Machine Learning Repository (Hogue, 2019): 48,204 rows about the
westbound lanes of the Interstate 94 near Minneapolis, from October 2012 to September 2018.

File: `Metro_Interstate_Traffic_Volume.csv`, or with `.gz` as published: a first row of names, then nine cells in each
row.

The paper (Hasani et al., 2021): seven inputs, which are whether it is a holiday, the temperature "normalized by annual
mean", rain, snow, clouds, whether it is a weekday, and a sine of the time of day; overlapping windows of 32 hours, of
which 75 % are drawn for training, 10 % for validation and 15 % for test; the volume of the same hour, of zero mean and
unit standard deviation, scored by the squared error.

Decided here, since the paper does not say:
- An hour with several rows, one for each kind of weather, counts once, with its first row. An hour without a row
  becomes one whose weather and volume are missing, so that a window lasts 32 hours; windows without any volume are left
  out.
- The publishers mark a holiday at midnight only; here it lasts the whole day.
- The temperature is the difference from the mean of its calendar year, of zero mean and unit standard deviation. Rain
  and snow stay in millimetres, clouds go from 0 to 1, and the time of day is sin(2 pi hour / 24).
- 0 K and more than 1,000 mm of rain in an hour, which the file has in a few rows, are missing values.
- Windows begin 16 hours apart. Mean and standard deviation are those of the training windows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
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

FILES = ("Metro_Interstate_Traffic_Volume.csv",)
PUBLISHER = "'Metro Interstate Traffic Volume' of the UCI Machine Learning Repository"
HEADER = (
    "holiday", "temp", "rain_1h", "snow_1h", "clouds_all", "weather_main", "weather_description", "date_time",
    "traffic_volume",
)  # fmt: skip
INPUTS = ("holiday", "temperature", "rain", "snow", "clouds", "weekday", "time of day")
TEMPERATURE, RAIN, CLOUDS = 0, 1, 3  # columns of weather
NO_HOLIDAY = ("", "None")
MOST_RAIN = 1000.0  # mm in an hour
SATURDAY = 5
LONGEST = 24 * 366 * 100  # hours


def read_traffic(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the traffic; see the module for files and decisions."""
    (path,) = find_files(folder, FILES, PUBLISHER)
    recording = _recording(path)
    cuts = [one for one in cut([recording], stride) if _has_target(recording, one.start)]
    parts = random_parts(len(cuts), seed, "traffic")
    (used,) = training_rows([recording], cuts, parts)
    inputs, volume = scale_of([recording.inputs[used]]), scale_of([recording.targets[used]])
    warm = INPUTS.index("temperature")
    for column in range(len(INPUTS)):
        if column != warm:
            inputs.mean[column], inputs.deviation[column] = 0.0, 1.0
    scaled = RawSeries(recording.name, inputs.whitened(recording.inputs), volume.whitened(recording.targets))
    meta = {
        "files": [str(path)],
        "parts": parts,
        "window": WINDOW,
        "stride": stride,
        "scale": {"inputs": inputs.as_json(), "targets": volume.as_json()},
    }
    return SeriesData(window_series([scaled], cuts), INPUTS, ("volume",), meta=meta)


def _has_target(recording: RawSeries, start: int) -> bool:
    return not bool(np.isnan(recording.targets[start : start + WINDOW]).all())


def _recording(path: Path) -> RawSeries:
    """Returns all hours from the first to the last."""
    numbers, times, holidays = Numbers(path), list[datetime](), set[object]()
    for row, cells in read_rows(path, len(HEADER), header=HEADER):
        times.append(_hour(path, row, cells[7]))
        numbers.add(row, [*cells[1:5], cells[8]])
        if cells[0].strip() not in NO_HOLIDAY:
            holidays.add(times[-1].date())
    first, days = min(times), {time.date() for time in times}
    place = np.array([(time - first) // timedelta(hours=1) for time in times])
    hours = [first + timedelta(hours=k) for k in range(_checked(path, int(place.max())) + 1)]
    values = np.full((len(hours), 5), np.nan)
    values[place[::-1]] = numbers.matrix()[::-1]  # backwards, so that the first row of an hour is the one that stays
    weather = _weather(values[:, :4], np.array([hour.year for hour in hours]))
    calendar = np.array(
        [
            (
                float(hour.date() in holidays) if hour.date() in days else np.nan,
                float(hour.weekday() < SATURDAY),
                np.sin(2 * np.pi * hour.hour / 24),
            )
            for hour in hours
        ]
    )
    inputs = np.concatenate([calendar[:, :1], weather, calendar[:, 1:]], axis=1)
    return RawSeries("traffic", inputs, values[:, 4:])


def _hour(path: Path, row: int, cell: str) -> datetime:
    try:
        return datetime.fromisoformat(cell.strip()).replace(minute=0, second=0, tzinfo=None)
    except ValueError as error:
        raise ValueError(f"{path}, row {row}: {cell!r} is not a time such as 2012-10-02 09:00:00") from error


def _checked(path: Path, hours: int) -> int:
    if hours > LONGEST:
        raise ValueError(f"{path}: its times are more than a hundred years apart, so one of them is wrong")
    return hours


def _weather(values: NDArray[np.float64], years: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns temperature, rain, snow and clouds without impossible values, and each year's mean temperature off."""
    found: NDArray[np.float64] = values.copy()
    found[found[:, TEMPERATURE] <= 0, TEMPERATURE] = np.nan
    found[found[:, RAIN] > MOST_RAIN, RAIN] = np.nan
    found[:, CLOUDS] /= 100
    for year in np.unique(years):
        own = years == year
        found[own, TEMPERATURE] -= scale_of([found[own, TEMPERATURE, None]]).mean
    return found
