"""Human activity: 561 numbers a row, and people who must not be mixed in a window."""

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.public_series.sets import load_public


def write(folder: Path, part: str, people: list[int], activities: list[int] | None = None) -> None:
    (folder / part).mkdir()
    lines = ["  ".join(["", f"{t / 100: .7e}", *["-1.0000000e+00"] * 560]) for t in range(len(people))]
    (folder / part / f"X_{part}.txt").write_text("\n".join(lines) + "\n")
    answers = activities if activities is not None else [1 + t % 6 for t in range(len(people))]
    (folder / part / f"y_{part}.txt").write_text("".join(f"{answer}\n" for answer in answers))
    (folder / part / f"subject_{part}.txt").write_text("".join(f"{person}\n" for person in people))


def test_windows_keep_to_one_person_and_to_the_publishers_parts(tmp_path: Path) -> None:
    write(tmp_path, "train", [1] * 50 + [3] * 31 + [5] * 32)
    write(tmp_path, "test", [2] * 40)
    data = load_public("har", tmp_path)
    assert [series.name for series in data.series] == [
        "person 1, rows 0 to 31", "person 1, rows 16 to 47", "person 5, rows 0 to 31", "person 2, rows 0 to 31"
    ]  # fmt: skip
    assert Counter(data.meta["parts"]) == {"train": 2, "valid": 1, "test": 1}
    assert data.meta["parts"][3] == "test"
    assert data.series[2].inputs.shape == (32, 561)
    assert data.series[2].inputs[0, :2].tolist() == [0.81, -1]  # not normalised
    assert data.series[2].targets[:6].tolist() == [(81 + t) % 6 for t in range(6)]
    assert len(data.inputs) == 561
    assert data.classes[5] == "lying"


def test_files_of_different_length_and_unknown_classes_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train", [1] * 64, [1] * 63)
    write(tmp_path, "test", [2] * 40, [7] * 40)
    with pytest.raises(ValueError, match=re.escape("y_train.txt has 63 rows, and ")):
        load_public("har", tmp_path)
    (tmp_path / "train" / "y_train.txt").write_text("1\n" * 64)
    with pytest.raises(ValueError, match=re.escape("y_test.txt, row 1: '7' is none of 1, 2, 3, 4, 5, 6")):
        load_public("har", tmp_path)
    (tmp_path / "test" / "X_test.txt").write_text("1 2 3\n")
    with pytest.raises(ValueError, match=re.escape("X_test.txt, row 1 has 3 columns, and should have 561")):
        load_public("har", tmp_path)
