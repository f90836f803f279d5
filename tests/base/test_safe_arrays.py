"""NumPy's files: what was written is read, and nothing in a file is run or written elsewhere."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ncp_control.base.safe_arrays import ArraysError, read_arrays

ARRAYS = {
    "rows": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big": np.arange(3, dtype=">i4"),
    "text": np.array(["a", "é"]),
    "one": np.array(7),
    "none": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_under_their_names(tmp_path: Path, save: object) -> None:
    save(tmp_path / "a.npz", **ARRAYS)  # type: ignore[operator]
    found = read_arrays(tmp_path / "a.npz")
    assert found.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype.newbyteorder("=")
    assert read_arrays(tmp_path / "a.npz", ["one"]).keys() == {"one"}


def test_one_array_has_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAYS["rows"])
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.npy")[""], ARRAYS["rows"])


def test_names_that_lead_out_of_an_archive_write_nothing(tmp_path: Path) -> None:
    inside = io.BytesIO()
    np.save(inside, np.ones((3, 2)))
    (tmp_path / "a").mkdir()
    with zipfile.ZipFile(tmp_path / "a" / "b.npz", "w") as archive:
        for name in ("observations.npy", "../slipped.npy", str(tmp_path / "slipped.npy")):
            archive.writestr(name, inside.getvalue())
    assert read_arrays(tmp_path / "a" / "b.npz")["observations"].shape == (3, 2)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b.npz"]


def test_a_header_that_numpy_itself_cannot_read_is_refused(tmp_path: Path) -> None:
    """NumPy's own reader raises an error of Python's tokenizer on these."""
    for text in (b"{'descr': '<f8', 'shape': ((((", b"{'descr': 5L, 'shape': (3L", b"-" * 4000 + b"1", b"(" * 9000):
        path = tmp_path / "a.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
        with pytest.raises(ArraysError, match=r"a\.npy is not a readable file of arrays"):
            read_arrays(path)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"a": np.zeros(3, complex)}, "holds an array of complex128: only numbers and text are read"),
        ({"a": np.array([None])}, "holds Python objects or is no NumPy file: neither is read"),
    ],
)
def test_other_things_than_numbers_and_text_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], reason: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ArraysError, match=reason):
        read_arrays(tmp_path / "a.npz")
