"""Rollouts from a table, with what each column is for."""

from pathlib import Path

import numpy as np
import pytest

from ncp_control.data import Rollouts, Windows
from ncp_control.data.table_rollouts import TableSource, table_source

ROWS = [  # time, site, temperature, wind, heater; the groups alternate
    ("0", "a", 1.0, 5.0, 0.0),
    ("0", "b", 2.0, 6.0, 1.0),
    ("1", "a", 3.0, 7.0, 0.5),
    ("2", "b", 4.0, 8.0, 0.0),
    ("3", "a", 5.0, 9.0, 1.0),
    ("4", "b", 7.0, 9.5, 0.5),
]


def table(folder: Path, rows: list[tuple[object, ...]] | None = None, name: str = "house.csv") -> Path:
    lines = ["hour,site,temperature,wind,heater", *(",".join(map(str, row)) for row in rows or ROWS)]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("log.csv", TableSource(Path("log.csv"))),
        ("a.b/log.TSV:time=t", TableSource(Path("a.b/log.TSV"), time="t")),
        (
            "log.parquet:time=t,group=my site,predict=a+b,read=c",
            TableSource(Path("log.parquet"), "t", "my site", ("a", "b"), ("c",)),
        ),
        ("log.csv.npz", None),
        ("./cheetah-v0", None),
    ],
)
def test_a_source_names_the_file_and_the_columns(text: str, wanted: TableSource | None) -> None:
    assert table_source(text) == wanted


def test_groups_become_rollouts_with_their_own_times(tmp_path: Path) -> None:
    source = f"{table(tmp_path)}:time=hour,group=site,predict=temperature+wind,read=heater"
    found = Rollouts.load(source)
    assert [one.name for one in found] == ["site a", "site b"]
    assert found.observation_names == ("temperature", "wind")
    assert found.action_names == Rollouts.stream(source).action_names == Rollouts.joined([found, found]).action_names
    assert found.action_names == ("heater",)
    assert found[0].observations.tolist() == [[1.0, 5.0], [3.0, 7.0], [5.0, 9.0]]
    assert found[0].actions is not None
    assert found[0].actions.tolist() == [[0.0], [0.5]]
    assert found[0].elapsed is not None
    assert found[0].elapsed.tolist() == [1.5, 1.0, 2.0]  # the first is the median of the others
    assert found[1].elapsed is not None
    assert found[1].elapsed.tolist() == [2.0, 2.0, 2.0]
    assert found.about["columns"]["group"] == "site"
    batch = Windows(found, 2, 1)[[0]]
    assert batch.ahead is not None
    assert batch.ahead.tolist() == [[1.0, 2.0]]


def test_columns_of_numbers_that_change_are_predicted_by_default(tmp_path: Path) -> None:
    rows = [(hour, "x", 1.0 + hour, 3.0, hour**2) for hour in range(4)]
    found = Rollouts.load(f"{table(tmp_path, rows)}:time=hour")
    assert found.observation_names == ("temperature", "heater")
    assert found.about["columns"]["left out"] == ["site", "wind"]
    assert found[0].elapsed is None  # as the rows are equally far apart
    assert found[0].actions is None
    assert found[0].name == "house.csv"


def test_a_table_on_disk_is_the_same(tmp_path: Path) -> None:
    source = f"{table(tmp_path)}:time=hour,group=site,read=heater"
    for one, other in zip(Rollouts.load(source), Rollouts.stream(source, tmp_path), strict=True):
        assert np.array_equal(one.observations, np.asarray(other.observations))
        assert np.array_equal(np.asarray(one.elapsed), np.asarray(other.elapsed))


def changed(row: int, column: int, value: object) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [tuple(one) for one in ROWS]
    rows[row] = (*rows[row][:column], value, *rows[row][column + 1 :])
    return rows


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        (None, "times=hour", r"'times=hour' in .* does not say what a column is for: write FILE\.csv:time=COLUMN"),
        (None, "time=", r"'time=' in .* does not say"),
        (None, "time=minute", r"has no column 'minute': its columns are hour, site, temperature, wind, heater"),
        (None, "predict=site", r"row 2: 'a' in the column 'site' is not a number"),
        (None, "predict=wind,read=wind", r"'wind' is named twice, and has one use"),
        (None, "predict=wind+wind", r"'wind' is named twice"),
        (None, "time=hour,read=hour", r"'hour' is named twice"),
        (None, "time=hour", r"row 3 has the same time as row 2 in the column 'hour': sort the rows"),
        (changed(4, 0, 0.5), "time=hour,group=site", r"row 6 has an earlier time than row 4"),
        (changed(3, 3, ""), "group=site,predict=wind", r"row 5: the value of the column 'wind' is missing: remove"),
        (changed(5, 1, "c"), "group=site", r"row 7 is the only one of the group 'c'"),
        (changed(5, 1, ""), "group=site", r"row 7: the group in the column 'site' is missing"),
        ([(k, "a", 1.0, k, k) for k in range(3)], "predict=temperature", r"'temperature' is 1 in every row: leave it"),
        ([(k, "a", 1.0, 2.0, 3.0) for k in range(3)], "time=hour", r"no column of numbers that change"),
    ],
)
def test_what_cannot_be_read_is_named(
    rows: list[tuple[object, ...]] | None, columns: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Rollouts.load(f"{table(tmp_path, rows)}:{columns}")


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.csv"):
        Rollouts.load(f"{tmp_path / 'no.csv'}:time=t")
