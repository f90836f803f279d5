"""Tables of measurements: their cells, and every sentence about what cannot be read."""

import math
from pathlib import Path

import numpy as np
import pytest

from ncp_control.data.tables import DataTable, read_table, to_number, to_seconds


def written(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "t,x,who\n0,1.5,ann\n1,,bob\n"),
        ("b.csv", "t;x;who\n0;1.5;ann\n1;NA;bob\n"),
        ("c.tsv", "t\tx\twho\n0\t1.5\tann\n1\t?\tbob\n"),
        ("d.csv", '\ufeff"t", x ,who\r\n0,1.5,ann\r\n1,nan,bob\r\n\r\n'),
    ],
)
def test_the_usual_ways_to_write_a_table_are_read_alike(name: str, text: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, text, name))
    assert list(table.columns) == ["t", "x", "who"]
    assert table.rows == 2
    assert table.numbers("t").tolist() == [0.0, 1.0]
    assert table.numbers("x")[0] == 1.5
    assert math.isnan(table.numbers("x")[1])
    assert table.words("who") == ["ann", "bob"]
    assert [table.is_numbers(column) for column in table.columns] == [True, True, False]


def test_a_quoted_cell_may_hold_a_comma_and_a_line(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, 'x,note\n1,"a, b\nc"\n2,d\n'))
    assert table.words("note") == ["a, b\nc", "d"]


def test_only_what_people_write_as_numbers_are_numbers() -> None:
    assert to_number(" 1e-3 ") == 0.001
    assert to_number("1_000") is None
    assert to_number("twelve") is None


def test_times_are_numbers_or_dates() -> None:
    table = DataTable(Path("log.csv"), {"n": ["3", "4.5"], "d": ["2026-01-01T00:00:00Z", "2026-01-01 01:00:00"]})
    assert table.times("n").tolist() == [3.0, 4.5]
    assert np.diff(table.times("d")).tolist() == [3600.0]
    assert to_seconds("1970-01-02") == 86400.0
    assert to_seconds("1970-01-01T02:00:00+02:00") == 0.0


def test_parquet_is_read_like_text(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from datetime import datetime

    from pyarrow import parquet

    columns = {
        "x": [1.0, None, 2.5], "k": [1000001, 1000002, 1000003], "on": [True, False, True], "who": ["a", None, "b"],
        "when": [datetime(2026, 1, 1, hour) for hour in (0, 1, 3)], "large": [2**60, 2**60 + 1, 0],
    }  # fmt: skip
    columns["fine"] = pyarrow.array(columns["when"], pyarrow.timestamp("ns", "UTC"))
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    table = read_table(tmp_path / "log.parquet")
    assert np.array_equal(table.numbers("x"), [1.0, np.nan, 2.5], equal_nan=True)
    assert table.numbers("k").tolist() == [1000001.0, 1000002.0, 1000003.0]
    assert table.numbers("on").tolist() == [1.0, 0.0, 1.0]
    assert table.words("who") == ["a", "", "b"]
    assert table.words("k") == ["1000001", "1000002", "1000003"]
    assert table.words("x") == ["1", "", "2.5"]
    assert table.words("large") == [str(2**60), str(2**60 + 1), "0"]
    for name in ("when", "fine"):
        assert np.diff(table.times(name)).tolist() == [3600.0, 7200.0]
    (tmp_path / "no.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(ValueError, match=r"no\.parquet is not a file of Parquet, or it is damaged"):
        read_table(tmp_path / "no.parquet")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"log\.csv is empty, or its first row is: that row must have the names"),
        ("\na,b\n1,2\n", r"log\.csv is empty, or its first row is"),
        ("a,b\n", r"has the names of its columns, but no row below them"),
        ("a,a\n1,2\n", r"two columns of the name 'a'"),
        ("a,\n1,2\n", r"column 2 has no name"),
        ("a,b\n1,2\n\n1,2\n", r"row 3 is empty, and more rows follow"),
        ("a,b\n1,2\n1,2,3\n", r"row 3 has 3 cells, and the first row names 2"),
    ],
)
def test_what_is_no_table_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_table(written(tmp_path, text))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        read_table(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["1", "two"], r"row 3: 'two' in the column 'x' is not a number"),
        (["1", "inf"], r"row 3: the number in the column 'x' is infinite"),
        (["", "NA"], r"the column 'x' has no value in any row"),
    ],
)
def test_cells_that_are_no_numbers_are_named(cells: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DataTable(Path("log.csv"), {"x": cells}).numbers("x")


def test_times_that_are_none_are_named() -> None:
    table = DataTable(Path("log.csv"), {"a": ["2026-01-01", "noon"], "b": ["1", ""]})
    with pytest.raises(ValueError, match=r"row 3: 'noon' in the column 'a' is neither a number nor a time"):
        table.times("a")
    with pytest.raises(ValueError, match=r"row 3: the time in the column 'b' is missing"):
        table.times("b")
    with pytest.raises(ValueError, match=r"no column 'c': its columns are a, b"):
        table.times("c")
