"""Arrays on disk read as arrays in memory do."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ncp_control.data.columns import Column, StoredArray, column_of

VALUES = np.random.default_rng(0).normal(size=(20, 3))


def stored(path: Path, values: np.ndarray = VALUES) -> StoredArray:
    column = Column(path, values.dtype, values.shape[1:], new=True)
    column.write(0, values)
    return StoredArray(column, 0, len(values))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_what_is_written_is_read(dtype: type, tmp_path: Path) -> None:
    for k, shape in enumerate([(20,), (20, 3), (20, 2, 2)]):
        values = np.random.default_rng(0).normal(scale=50, size=shape).astype(dtype)
        found = stored(tmp_path / str(k), values)
        assert (found.shape, found.ndim, found.dtype, found.nbytes) == (shape, len(shape), dtype, values.nbytes)
        assert_array_equal(np.asarray(found), values, strict=True)
        assert_array_equal(np.asarray(found, np.float64), values.astype(np.float64), strict=True)
        assert_array_equal(found.column.cut([3, 0, 3], 4), np.stack([values[3:7], values[:4], values[3:7]]))


def test_slices_stay_on_disk_and_rows_are_read(tmp_path: Path) -> None:
    found = stored(tmp_path / "values")
    part = found[5:][2:9]
    assert isinstance(part, StoredArray)
    assert_array_equal(np.asarray(part), VALUES[7:14])
    assert len(found[30:]) == len(found[9:3]) == 0
    assert_array_equal(found[-1], VALUES[-1])
    assert_array_equal(found[::-2], VALUES[::-2])
    assert_array_equal(found[[3, 1], 2], VALUES[[3, 1], 2])
    with pytest.raises(IndexError):
        found[20]


def test_the_file_may_be_removed_while_it_is_open_and_a_copy_opens_its_own(tmp_path: Path) -> None:
    found = stored(tmp_path / "values")
    copy = pickle.loads(pickle.dumps(found))
    (tmp_path / "values").unlink()
    for own in (found, copy):
        assert_array_equal(np.asarray(own), VALUES)
    assert copy.column.largest == np.abs(VALUES).max()


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    found = stored(tmp_path / "values")
    with (tmp_path / "values").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(OSError, match="is shorter than it was"):
        np.asarray(found)


def test_arrays_of_one_column_are_known(tmp_path: Path) -> None:
    one, other = stored(tmp_path / "one"), stored(tmp_path / "other")
    assert column_of([one, one[3:]]) is one.column
    assert column_of([one, other]) is column_of([one, VALUES]) is column_of([]) is None
