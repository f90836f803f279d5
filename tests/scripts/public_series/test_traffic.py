"""Traffic: hours with several rows, hours without any, holidays, and impossible weather."""

import gzip
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.sets import load_public

HEADER = "holiday,temp,rain_1h,snow_1h,clouds_all,weather_main,weather_description,date_time,traffic_volume"
START = datetime(2012, 12, 24, 0)  # a Monday
HOLIDAY = 24  # the hour at which Christmas begins, a Tuesday


def row(hour: int, volume: object, temp: float = 280.0, rain: object = "0.0", holiday: str = "None") -> str:
    when = START + timedelta(hours=hour)
    return f"{holiday},{temp},{rain},0.0,75,Rain,light rain,{when},{volume}"


def write(folder: Path, rows: list[str]) -> None:
    text = "\n".join([HEADER, *rows]) + "\n"
    (folder / "Metro_Interstate_Traffic_Volume.csv.gz").write_bytes(gzip.compress(text.encode()))


def rows(hours: int = 80) -> dict[int, str]:
    return {
        t: row(t, 100 + t, temp=270.0 + t % 3, holiday="Christmas Day" if t == HOLIDAY else "None")
        for t in range(hours)
    }


def test_a_window_is_32_hours_of_seven_inputs(tmp_path: Path) -> None:
    made = rows()
    made[5] = row(5, 105, temp=0)
    made[6] = row(6, 106, rain="9831.3")
    made[7] = row(7, 107, rain="1.5") + "\n" + row(7, 999, rain="2.5")  # the same hour twice
    del made[8]
    write(tmp_path, list(made.values()))
    data = load_public("traffic", tmp_path)
    assert data.inputs == ("holiday", "temperature", "rain", "snow", "clouds", "weekday", "time of day")
    assert [series.name for series in data.series] == [f"traffic, rows {k} to {k + 31}" for k in (0, 16, 32, 48)]
    assert Counter(data.meta["parts"]) == {"train": 2, "valid": 1, "test": 1}
    one = data.series[0]
    assert (one.inputs.shape, one.targets.shape) == ((32, 7), (32, 1))
    assert one.elapsed is None
    assert one.inputs[:, 0].tolist() == [0] * 24 + [1] * 8
    assert np.isnan(one.inputs[:, 1]).nonzero()[0].tolist() == [5, 8]
    assert np.isnan(one.inputs[:, 2]).nonzero()[0].tolist() == [6, 8]
    assert np.isnan(one.targets[:, 0]).nonzero()[0].tolist() == [8]
    assert one.inputs[7, 2] == 1.5
    assert one.inputs[0, 3:6].tolist() == [0, 0.75, 1]
    assert one.inputs[:, 6] == pytest.approx(np.sin(2 * np.pi * np.arange(32) / 24))
    scale = data.meta["scale"]["targets"]
    assert one.targets[7, 0] * scale["deviation"][0] + scale["mean"][0] == pytest.approx(107)


def test_weekends_holidays_and_days_without_any_row(tmp_path: Path) -> None:
    made = {t: line for t, line in rows(24 * 8).items() if not 48 <= t < 72}  # no Wednesday
    write(tmp_path, list(made.values()))
    data = load_public("traffic", tmp_path, stride=32)
    whole = np.concatenate([series.inputs for series in data.series])
    assert whole[:, 5].tolist() == [1] * 120 + [0] * 48 + [1] * 24
    assert whole[:, 0].tolist()[:48] == [0] * 24 + [1] * 24
    assert np.isnan(whole[48:72, 0]).all()
    assert not whole[72:, 0].any()


def test_the_mean_temperature_of_each_year_is_taken_off(tmp_path: Path) -> None:
    """From 24 December there are 192 hours in 2012; the temperatures swing by 2 about 271 then, and 301 later."""
    made = [row(t, 100, temp=(271 if t < 192 else 301) + (-1) ** t * 2) for t in range(2 * 192)]
    write(tmp_path, made)
    data = load_public("traffic", tmp_path)
    whole = np.concatenate([series.inputs for series in data.series])
    assert whole[:, 1] == pytest.approx(np.tile([1, -1], len(whole) // 2))
    assert data.meta["scale"]["inputs"]["deviation"] == pytest.approx([1, 2, 1, 1, 1, 1, 1])


def test_windows_without_any_volume_are_left_out(tmp_path: Path) -> None:
    made = {t: line for t, line in rows(200).items() if not 60 <= t < 140}
    write(tmp_path, list(made.values()))
    data = load_public("traffic", tmp_path)
    assert [int(series.name.split()[2]) for series in data.series] == [0, 16, 32, 48, 112, 128, 144, 160]


def test_wrong_times_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [row(0, 1), row(1, 2).replace("2012-12-24", "24.12.12")])
    with pytest.raises(ValueError, match=re.escape("row 3: '24.12.12 01:00:00' is not a time such as")):
        load_public("traffic", tmp_path)
    write(tmp_path, [row(0, 1), row(1, 2).replace("2012", "2912")])
    with pytest.raises(ValueError, match="times are more than a hundred years apart"):
        load_public("traffic", tmp_path)
