"""Windows, their parts, and their scale, by hand."""

import math
import re
from collections import Counter

import numpy as np
import pytest

from scripts.public_series.windows import (
    Cut,
    RawSeries,
    cut,
    random_parts,
    scale_of,
    training_rows,
    window_series,
)


def recording(rows: int, name: str = "a") -> RawSeries:
    return RawSeries(name, np.arange(2.0 * rows).reshape(rows, 2), np.arange(rows))


def test_windows_begin_a_stride_apart_and_end_within_their_recording() -> None:
    found = cut([recording(9), recording(3), recording(4)], 2, length=4)
    assert found == [Cut(0, 0), Cut(0, 2), Cut(0, 4), Cut(2, 0)]
    with pytest.raises(ValueError, match=re.escape("the stride is 0, and must be at least 1 row")):
        cut([recording(9)], 0)


def test_windows_are_series_of_their_rows_and_share_memory() -> None:
    source = recording(9)
    (one,) = window_series([source], [Cut(0, 2)], length=4)
    assert one.inputs.tolist() == [[4, 5], [6, 7], [8, 9], [10, 11]]
    assert one.targets.tolist() == [2, 3, 4, 5]
    assert one.elapsed is None
    assert one.name == "a, rows 2 to 5"
    assert np.shares_memory(one.inputs, source.inputs)


def test_parts_have_their_shares_and_follow_the_seed() -> None:
    parts = random_parts(40, 0, "x")
    assert Counter(parts) == {"train": 30, "valid": 4, "test": 6}
    assert parts == random_parts(40, 0, "x")
    assert parts != random_parts(40, 1, "x")
    assert Counter(random_parts(40, 0, "x", test=0)) == {"train": 36, "valid": 4}
    assert Counter(random_parts(3, 0, "x")) == {"train": 1, "valid": 1, "test": 1}
    with pytest.raises(ValueError, match=re.escape("the files of x give 2 series, and 3 or more are needed")):
        random_parts(2, 0, "x")


def test_the_scale_leaves_out_what_is_missing_and_what_never_changes() -> None:
    scale = scale_of([np.array([[1.0, 5.0, math.nan]]), np.array([[3.0, 5.0, math.nan], [math.nan, 5.0, math.nan]])])
    assert scale.mean.tolist() == [2, 5, 0]
    assert scale.deviation.tolist() == [1, 1, 1]
    whitened = scale.whitened(np.array([[4.0, 6.0, math.nan]]))
    assert whitened[0, :2].tolist() == [2, 1]
    assert math.isnan(whitened[0, 2])


def test_only_rows_of_training_windows_are_training_rows() -> None:
    (used,) = training_rows([recording(9)], [Cut(0, 0), Cut(0, 2), Cut(0, 5)], ["train", "test", "train"], length=3)
    assert used.tolist() == [True, True, True, False, False, True, True, True, False]
