"""Finding and reading the publishers' files, and every sentence about what is wrong with them."""

import gzip
import math
import re
from pathlib import Path

import pytest

from scripts.public_series.files import SPACES, find_files, read_bytes, read_matrix, read_rows

WHO = "'Things' of a publisher"


def test_files_are_found_with_and_without_gz_and_by_either_name(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt.gz", "c.two"):
        (tmp_path / name).write_bytes(b"1")
    found = find_files(tmp_path, ("a.txt", "sub/b.txt", "c.one|c.two"), WHO)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a.txt", "sub/b.txt.gz", "c.two"]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    missing = f"{tmp_path} has no b.txt, c or d: this set needs a.txt, b.txt, c or d, which have these names in {WHO}"
    with pytest.raises(FileNotFoundError, match=re.escape(missing)):
        find_files(tmp_path, ("a.txt", "b.txt", "c|d"), WHO)
    nowhere = f"the folder {tmp_path / 'no'} does not exist: it should hold a.txt from {WHO}"
    with pytest.raises(FileNotFoundError, match=re.escape(nowhere)):
        find_files(tmp_path / "no", ("a.txt",), WHO)
    with pytest.raises(FileNotFoundError, match=re.escape("a.txt is a file, not a folder: it should hold a.txt")):
        find_files(tmp_path / "a.txt", ("a.txt",), WHO)


def test_numbers_may_be_missing_quoted_and_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf1,"2"\r\n?,\r\n\r\n3, 4e1\r\n'))
    found = read_matrix(path, 2)
    assert found[[0, 2]].tolist() == [[1, 2], [3, 40]]
    assert all(math.isnan(value) for value in found[1])
    path = tmp_path / "b.txt"
    path.write_text("  1.0e+00  -2\n 3 4 \n")
    assert read_matrix(path, 2, mark=SPACES).tolist() == [[1, -2], [3, 4]]


def test_names_in_the_first_row_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"x", y\n1,2\n')
    assert list(read_rows(path, 2, header=("x", "y"))) == [(2, ["1", "2"])]
    with pytest.raises(ValueError, match=re.escape(f"{path}, row 1 should be the names x,z")):
        list(read_rows(path, 2, header=("x", "z")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", " is empty"),
        ("\n\n", " is empty"),
        ("1,2\n3\n", ", row 2 has 1 column, and should have 2"),
        ("1,2\n\n3,4,5\n", ", row 3 has 3 columns, and should have 2"),
        ("1,2\n3,four\n", ", row 2: 'four' is not a number"),
        ("1,inf\n", ", row 1: 'inf' is not a number"),
        ("?,-inf\n", ", row 1: '-inf' is not a number"),
    ],
)
def test_a_wrong_file_is_refused_with_its_row(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}{message}')}$"):
        read_matrix(path, 2)


def test_files_that_are_no_text_or_damaged_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe1,2\n")
    with pytest.raises(ValueError, match=re.escape(f"{path} is not a file of text")):
        read_matrix(path, 2)
    path.write_text("x,y\n")
    with pytest.raises(ValueError, match=re.escape(f"{path} has no row below its names")):
        list(read_rows(path, 2, header=("x", "y")))
    packed = tmp_path / "b.gz"
    for damaged in (b"1,2\n", gzip.compress(b"1,2\n" * 1000)[:-9]):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=re.escape(f"{packed} is not a whole file of gzip")):
            read_matrix(packed, 2)
        with pytest.raises(ValueError, match=re.escape(f"{packed} is not a whole file of gzip")):
            read_bytes(packed)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=re.escape(f"{path} is empty")):
        read_bytes(path)
