"""Power: semicolons, question marks, and windows that do not overlap."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.sets import load_public

NAME = "household_power_consumption.txt"
HEADER = (
    "Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;"
    "Sub_metering_1;Sub_metering_2;Sub_metering_3"
)


def write(folder: Path, rows: int, missing: int = -1) -> None:
    lines = [HEADER]
    for t in range(rows):
        when = f"16/12/2006;{t // 60:02d}:{t % 60:02d}:00"
        lines.append(
            f"{when};?;?;?;?;?;?;" if t == missing else f"{when};{t}.5;0.{t % 2};240;18.400;0.000;1.000;17.000"
        )
    (folder / NAME).write_text("\n".join(lines) + "\n")


def test_windows_follow_one_another_and_missing_minutes_stay_missing(tmp_path: Path) -> None:
    write(tmp_path, 20 * 32 + 5, missing=40)
    data = load_public("power", tmp_path)
    assert len(data.series) == 20
    assert data.series[1].name == "power, rows 32 to 63"
    assert data.inputs == ("Global_reactive_power", "Voltage", "Sub_metering_1", "Sub_metering_2", "Sub_metering_3")
    assert data.targets == ("Global_active_power",)
    assert data.classes == ()
    assert Counter(data.meta["parts"]) == {"train": 15, "valid": 2, "test": 3}
    one = data.series[1]
    assert (one.inputs.shape, one.targets.shape) == ((32, 5), (32, 1))
    assert np.isnan(one.inputs).all(1).nonzero()[0].tolist() == [8]
    assert np.isnan(one.targets[:, 0]).nonzero()[0].tolist() == [8]
    scale = data.meta["scale"]["targets"]
    known = np.arange(32) != 8
    assert (one.targets[:, 0] * scale["deviation"][0] + scale["mean"][0])[known] == pytest.approx(
        np.arange(32, 64)[known] + 0.5
    )
    trained = [s.targets for s, part in zip(data.series, data.meta["parts"], strict=True) if part == "train"]
    assert np.nanmean(trained) == pytest.approx(0)
    assert np.nanstd(trained) == pytest.approx(1)


def test_a_row_that_lacks_a_cell_and_another_header_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 40)
    path = tmp_path / NAME
    path.write_text(path.read_text().replace("16/12/2006;00:02:00;2.5;0.0;240", "16/12/2006;00:02:00;2.5;240"))
    with pytest.raises(ValueError, match=re.escape(f"{path}, row 4 has 8 columns, and should have 9")):
        load_public("power", tmp_path)
    path.write_text("a;b\n1;2\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}, row 1 should be the names Date;Time;")):
        load_public("power", tmp_path)
