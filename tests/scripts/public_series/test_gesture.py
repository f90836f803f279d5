"""Hand gestures: seven files of 32 numbers and a letter."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.gesture import FILES
from scripts.public_series.sets import load_public


def write(folder: Path, rows: int = 64, header: bool = False) -> None:
    """In file f, row t has t + 100 f in its first column, 7 in its second, and the letter number t modulo 5."""
    for number, name in enumerate(FILES):
        lines = [",".join(map(str, [*range(1, 33), "Phase"]))] if header else []
        for t in range(rows):
            lines.append(",".join(["%.3f" % (t + 100 * number), "7", *["0.5"] * 30, "DPSHR"[t % 5]]))
        (folder / name).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("header", [False, True])
def test_recordings_are_cut_shared_out_and_normalised(header: bool, tmp_path: Path) -> None:
    write(tmp_path, header=header)
    data = load_public("gesture", tmp_path)
    assert len(data.series) == 7 * 3  # windows begin at rows 0, 16 and 32 of each recording
    assert [series.name for series in data.series[:3]] == ["a1, rows 0 to 31", "a1, rows 16 to 47", "a1, rows 32 to 63"]
    assert len(data.inputs) == 32
    assert data.classes == ("rest", "preparation", "stroke", "hold", "retraction")
    assert not data.whole
    assert data.series[1].targets.tolist() == [t % 5 for t in range(16, 48)]
    assert Counter(data.meta["parts"]) == {"train": 16, "valid": 2, "test": 3}
    assert {key: data.meta[key] for key in ("set", "score", "window", "stride", "seed")} == {
        "set": "gesture", "score": "accuracy", "window": 32, "stride": 16, "seed": 0
    }  # fmt: skip
    trained = {
        (series.name[:2], t): float(value)
        for series, part in zip(data.series, data.meta["parts"], strict=True)
        if part == "train"
        for t, value in zip(range(int(series.name.split()[2]), 99), series.inputs[:, 0], strict=False)
    }
    values = np.array(list(trained.values()))
    assert (abs(values.mean()), values.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    assert not data.series[0].inputs[:, 1].any()  # a column that never changes
    scale = data.meta["scale"]["inputs"]
    assert data.series[1].inputs[:, 0] * scale["deviation"][0] + scale["mean"][0] == pytest.approx(np.arange(16, 48))


def test_a_stride_of_a_window_leaves_no_row_in_common(tmp_path: Path) -> None:
    write(tmp_path)
    data = load_public("gesture", tmp_path, stride=32, seed=3)
    assert len(data.series) == 14
    assert data.meta["stride"] == 32


def test_a_letter_that_is_no_phase_is_refused(tmp_path: Path) -> None:
    write(tmp_path, rows=33)
    path = tmp_path / "b3_va3.csv"
    path.write_text(path.read_text().replace("S\n", "X\n"))
    with pytest.raises(ValueError, match=re.escape(f"{path}, row 3: 'X' is none of D, P, S, H, R")):
        load_public("gesture", tmp_path)


def test_raw_files_are_refused_by_their_columns(tmp_path: Path) -> None:
    write(tmp_path, rows=33)
    (tmp_path / "a1_va3.csv").write_text(",".join(["1"] * 19 + ["Rest"]) + "\n")
    with pytest.raises(ValueError, match=re.escape("a1_va3.csv, row 1 has 20 columns, and should have 33")):
        load_public("gesture", tmp_path)
    (tmp_path / "a1_va3.csv").write_text(",".join(map(str, range(33))) + "\n")
    with pytest.raises(ValueError, match=re.escape("a1_va3.csv has no row below its names")):
        load_public("gesture", tmp_path)
