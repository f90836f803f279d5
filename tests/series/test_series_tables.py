"""Tables become series: labels, values, the next row; and every table that cannot is refused in one sentence."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ncp_control.data import Rollouts
from ncp_control.series import NO_CLASS, read_series, split_series
from ncp_control.series.tables import is_series

WALKS = "person,t,x,word,label\n" + "".join(
    f"p{k // 8},{k % 8 + (0.5 if k % 3 else 0)},{k * k % 7},w,{'ab'[k // 2 % 2]}\n" for k in range(32)
)


def write(folder: Path, text: str, name: str = "walks.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_rows_have_classes_and_times(tmp_path: Path) -> None:
    data = read_series(f"{write(tmp_path, WALKS)}:label=label,group=person,time=t")
    assert (data.inputs, data.targets, data.classes, data.whole) == (("x",), ("label",), ("a", "b"), False)
    assert data.meta["columns"]["left out"] == ["word"]
    one = data.series[1]
    assert one.name == "person p1"
    assert one.targets.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    times = np.array([k % 8 + (0.5 if k % 3 else 0) for k in range(8, 16)])
    assert one.elapsed is not None
    assert one.elapsed[1:] == pytest.approx(np.diff(times))
    assert one.elapsed[0] == pytest.approx(np.median(np.diff(times)))


def test_missing_cells_and_labels_stay_missing(tmp_path: Path) -> None:
    data = read_series(write(tmp_path, "x,y,c\n1,1,a\n,2,?\n3,4,none\n4,2,none\n5,1,a\n") + ":label=c")
    assert np.isnan(data.series[0].inputs[1, 0])
    assert data.classes == ("a", "none")
    assert data.series[0].targets.tolist() == [0, NO_CLASS, 1, 1, 0]
    assert data.meta["missing"] == {"x": pytest.approx(0.2)}
    assert data.meta["split"] == "time"


def test_numbers_are_classes_in_their_order(tmp_path: Path) -> None:
    data = read_series(write(tmp_path, "x,c\n1,10\n2,9\n3,10\n4,9\n") + ":label=c")
    assert data.classes == ("9", "10")


def test_values_belong_to_the_same_row(tmp_path: Path) -> None:
    data = read_series(write(tmp_path, "x,y,z\n1,2,5\n2,,6\n3,6,8\n") + ":value=y,read=x")
    assert data.inputs == ("x",)
    np.testing.assert_array_equal(data.series[0].targets, [[2], [np.nan], [6]])


def test_a_group_has_one_target(tmp_path: Path) -> None:
    rows = "".join(f"{g},{k},{g % 2},{g / 2}\n" for g in range(6) for k in range(3))
    path = write(tmp_path, f"g,x,c,v\n{rows}")
    data = read_series(f"{path}:label=c,each=group,group=g,read=x")
    assert data.whole
    assert [one.targets.tolist() for one in data.series] == [[k % 2] for k in range(6)]
    numbers = read_series(f"{path}:value=v,each=group,group=g,read=x")
    assert [one.targets.tolist() for one in numbers.series] == [[[k / 2]] for k in range(6)]


def test_the_next_row_is_the_target(tmp_path: Path) -> None:
    source = write(tmp_path, "t,x,u\n0,1,5\n1,,6\n3,3,7\n6,4,9\n") + ":time=t,predict=x,read=u"
    assert is_series(source)
    (one,) = read_series(source).series
    np.testing.assert_array_equal(one.inputs, [[1, 5], [np.nan, 6], [3, 7]])
    np.testing.assert_array_equal(one.targets, [[np.nan], [3], [4]])
    assert one.elapsed is not None
    assert one.elapsed.tolist() == [1, 2, 3]  # until the row that is predicted


def test_a_table_that_lacks_nothing_is_rollouts(tmp_path: Path) -> None:
    source = write(tmp_path, "t,x\n0,1\n1,2\n2,5\n") + ":time=t,predict=x"
    assert not is_series(source)
    assert len(Rollouts.load(source)) == 1


@pytest.mark.parametrize("key", ["label=c", "value=y", "split=time"])
def test_rollouts_refuse_series(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=r"makes series.* and no rollouts"):
        Rollouts.load(write(tmp_path, "x,y,c\n1,2,a\n2,3,b\n") + f":{key}")


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        ("x,c\n1,a\ntwo,b\n3,a\n4,b\n", "label=c", r"walks\.csv, row 3: 'two' in the column 'x' is not a number"),
        ("t,x,c\n1,1,a\n0,2,b\n2,3,a\n", "label=c,time=t", r"row 3 has an earlier time than row 2 in the column 't'"),
        ("x,y,c\n1,5,a\n2,5,b\n3,5,a\n", "label=c,read=y", r"the column 'y' is 5 in every row: leave it out"),
        ("x,y,c\n1,,a\n2,,b\n3,,a\n", "label=c,read=y", r"the column 'y' has no value in any row"),
        ("x,c\n1,a\n2,b\n3,a\n", "label=d", r"no column 'd': its columns are x, c"),
        ("x,c\n1,a\n2,b\n3,a\n", "label=c", r"row 3 is the only one with the label 'b' in the column 'c'"),
        ("x,c\n1,a\n2,a\n3,a\n", "label=c", r"the column 'c' is 'a' in every row"),
        ("x,c\n1,\n2,?\n3,NA\n", "label=c", r"no row has a label in the column 'c'"),
        ("x,c\n" + "".join(f"{k},{k / 7}\n" for k in range(150)), "label=c", r"150 different numbers.*write value=c"),
        ("g,x,c\n1,1,a\n1,2,b\n2,3,a\n", "label=c,group=g,each=group", r"row 3: the group '1' has 'b'.*'a' in row 2"),
        ("g,x,c\n1,1,a\n2,2,b\n3,3,a\n", "label=c,group=g,each=group", r"row 3: only the group '2' has the label 'b'"),
        ("x,c\n1,a\n2,b\n", "label=c,value=x", r"label= and value= are two tasks"),
        ("x,c\n1,a\n2,b\n", "label=c,each=group", r"each=group .*name the column of groups"),
        ("x,c\n1,a\n2,b\n", "label=c,each=row", r"each= is group.*not 'row'"),
        ("x,c\n1,a\n2,b\n", "label=c,split=half", r"split= is groups, time or none, not 'half'"),
        ("x,c\n1,a\n2,b\n", "label=c,split=groups", r"split=groups needs a column of groups"),
        ("x,c\n1,a\n2,b\n1,a\n2,b\n", "label=c,read=x+c", r"the column 'c' is named twice"),
        ("x,c\n1,a\n1,b\n1,a\n1,b\n", "label=c", r"no column of numbers that change"),
        ("g,x\n1,\n2,2\n3,3\n", "group=g,predict=x", r"every group has a single row"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, columns: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_series(f"{write(tmp_path, text)}:{columns}")


def test_groups_are_split_and_seeded(tmp_path: Path) -> None:
    rows = "".join(f"{g},{k},{(g + k) % 2}\n" for g in range(20) for k in range(4))
    data = read_series(write(tmp_path, "g,x,c\n" + rows) + ":label=c,group=g")
    parts = split_series(data)
    assert [len(part.series) for part in parts] == [15, 2, 3]
    names = [one.name for part in parts for one in part.series]
    assert sorted(names) == sorted(one.name for one in data.series)
    again, other = split_series(data), split_series(data, seed=1)
    assert [one.name for one in parts.test.series] == [one.name for one in again.test.series]
    assert [one.name for one in parts.test.series] != [one.name for one in other.test.series]


def test_classes_of_whole_series_are_shared_out(tmp_path: Path) -> None:
    rows = "".join(
        f"{g},{k * g % 5},{'abc'[0 if g < 14 else 1 if g < 18 else 2]}\n" for g in range(20) for k in range(4)
    )
    parts = split_series(read_series(write(tmp_path, "g,x,c\n" + rows) + ":label=c,group=g,each=group"))
    assert [len(part.series) for part in parts] == [15, 2, 3]
    assert {int(one.targets[0]) for one in parts.train.series} == {0, 1, 2}


def test_time_splits_every_group_and_nothing_crosses(tmp_path: Path) -> None:
    rows = "".join(f"{g},{k},{100 * g + k if k % 7 else ''}\n" for g in range(2) for k in range(41))
    data = read_series(write(tmp_path, f"g,t,x\n{rows}") + ":group=g,time=t,predict=x,split=time")
    parts = split_series(data)
    assert [len(part.series) for part in parts] == [2, 2, 2]
    for before, after in pairwise(parts):
        for one, other in zip(before.series, after.series, strict=True):
            assert np.nanmax(one.targets) < np.nanmin(other.inputs)
    assert len(parts.test.series[0].inputs) == 6


def test_a_class_that_only_the_test_part_has_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{k},{'c' if k > 37 else 'ab'[k % 2]}\n" for k in range(40))
    with pytest.raises(ValueError, match=r"walks\.csv: the class 'c' of the column 'c' is in the test part alone"):
        split_series(read_series(write(tmp_path, f"x,c\n{rows}") + ":label=c"))


def test_two_groups_are_split_in_time_unless_a_group_is_whole(tmp_path: Path) -> None:
    rows = "".join(f"{g},{k},{k % 2}\n" for g in range(2) for k in range(20))
    path = write(tmp_path, f"g,x,c\n{rows}")
    data = read_series(f"{path}:label=c,group=g")
    assert "has 2 groups: the last rows are for testing" in data.meta["said"]
    with pytest.raises(ValueError, match=r"has 2 series, and a split by groups needs 3"):
        split_series(read_series(f"{path}:label=c,group=g,split=groups"))
    with pytest.raises(ValueError, match="split=none keeps all rows in one part"):
        split_series(read_series(f"{path}:label=c,group=g,split=none"))
