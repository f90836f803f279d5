"""Rollouts in plain files: traces, folders of traces, and files that are refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers.rollouts import assert_same, trace
from ncp_control.data import Rollout, Rollouts
from ncp_control.data.sources import read_trace, write_trace


def test_a_folder_of_npy_and_npz_traces_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", trace(seed=1))
    full = Rollout(
        trace(),
        actions=trace(5, 2),
        rewards=trace(5)[:, 0],
        is_random=np.arange(5) > 3,
        elapsed=np.arange(1.0, 7.0),
        terminated=True,
        seed=2**32 - 1,
    )
    write_trace(full, tmp_path / "a.npz")
    assert_same(Rollouts((full,)), Rollouts((read_trace(tmp_path / "a.npz"),)))
    with pytest.raises(ValueError, match=r"of a\.npz and b\.npy only one has actions"):
        Rollouts.load(tmp_path)
    (tmp_path / "a.npz").unlink()
    np.savez(tmp_path / "a.npz", observations=trace(seed=2))
    (tmp_path / ".hidden.npy").write_bytes(b"not a trace")
    (tmp_path / "notes.txt").write_text("nor this", encoding="utf-8")
    rollouts = Rollouts.load(tmp_path)
    assert [rollout.name for rollout in rollouts] == ["a.npz", "b.npy"]
    assert_array_equal(rollouts[1].observations, trace(seed=1))
    assert len(Rollouts.load(tmp_path / "b.npy")) == 1


def test_broken_traces_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", observations=trace(500))
    np.save(tmp_path / "whole.npy", trace(500))
    for name in ("whole.npz", "whole.npy"):
        for share in (0.0, 0.2, 0.95):
            content = (tmp_path / name).read_bytes()
            path = tmp_path / f"cut{Path(name).suffix}"
            path.write_bytes(content[: int(share * len(content))])
            with pytest.raises(ValueError, match=r"cut\.np[yz] (is not a readable|holds Python objects or)"):
                Rollouts.load(path)


def test_a_pickle_is_not_unpickled(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(trap), "w"))

    np.save(tmp_path / "objects.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Trap()))
    np.savez(tmp_path / "objects.npz", observations=np.array([Trap()], dtype=object))
    trap.unlink(missing_ok=True)
    for name in ("objects.npy", "plain.npy", "objects.npz"):
        with pytest.raises(ValueError, match="holds Python objects or is no NumPy file: neither is read"):
            Rollouts.load(tmp_path / name)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"observations": trace()[:, 0]}, r"must have shape \(steps, features\), got \(6,\)"),
        ({"observations": trace(1)}, "needs at least two observations, and this one has 1"),
        ({"observations": trace(), "actions": trace(6)}, "6 observations go with 5 actions, but there are 6"),
        ({"observations": trace(), "elapsed": np.ones(5)}, "go with 6 elapsed, but there are 5"),
        ({"states": trace()}, "has no array 'observations'; it has states"),
        ({"observations": trace().astype(str)}, "must be numbers"),
        ({"observations": trace(), "seed": np.ones(2)}, r"seed must be one integer, and is an array of float64"),
        ({"observations": trace(), "terminated": 1}, "terminated must be true or false, and is an array of int64"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], reason: str) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ValueError, match=reason) as caught:
        Rollouts.load(tmp_path / "wrong.npz")
    assert "wrong.npz" in str(caught.value)


def test_bad_numbers_are_named(tmp_path: Path) -> None:
    values = trace()
    values[4, 1] = np.nan
    values[5, 0] = np.inf
    np.save(tmp_path / "bad.npy", values)
    with pytest.raises(ValueError, match=r"bad.npy: observations\[4, 1\] is nan \(1 more like it\)"):
        Rollouts.load(tmp_path)


def test_traces_of_different_shapes_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", trace())
    np.save(tmp_path / "b.npy", trace(features=4))
    with pytest.raises(ValueError, match=r"b.npy has 4 observations a step, a.npy has 3"):
        Rollouts.load(tmp_path)
    with pytest.raises(ValueError, match=r"actions of shape \(2,\), rollout of \(3,\)"):
        Rollouts((Rollout(trace(), actions=trace(5, 3)), Rollout(trace(), actions=trace(5, 2))))


def test_a_missing_source_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    with pytest.raises(FileNotFoundError, match="no file, folder or Minari dataset 'ncp/nothing-v0'"):
        Rollouts.load("ncp/nothing-v0")
    with pytest.raises(FileNotFoundError, match=r"holds no Minari dataset and no \.npy or \.npz trace"):
        Rollouts.load(tmp_path)


def test_the_folders_train_valid_and_test_are_the_parts_of_a_split(tmp_path: Path) -> None:
    for k, part in enumerate(("train", "valid", "test")):
        (tmp_path / part).mkdir()
        for number in range(k + 1):
            np.save(tmp_path / part / f"{number}.npy", trace(seed=10 * k + number))
    split = Rollouts.load(tmp_path).split()
    assert [len(part) for part in split] == [1, 2, 3]
    assert_array_equal(split.test[2].observations, trace(seed=22))
    for path in (tmp_path / "test").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="test holds no"):
        Rollouts.load(tmp_path)
    (tmp_path / "test").rmdir()
    with pytest.raises(ValueError, match="has train and valid, but no folder test"):
        Rollouts.load(tmp_path)


def test_a_table_of_another_kind_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_bytes(b"PK")
    with pytest.raises(
        ValueError, match=r"log\.xlsx is a table that cannot be read here: save it as \.csv or \.parquet"
    ):
        Rollouts.load(tmp_path / "log.xlsx")


def test_names_and_parts_that_do_not_fit_the_rollouts_are_refused() -> None:
    with pytest.raises(ValueError, match="there are 2 observation_names, and there must be 3"):
        Rollouts((Rollout(trace()),), ("x", "y"))
    with pytest.raises(ValueError, match="there are 2 parts, and there must be 1"):
        Rollouts((Rollout(trace()),), parts=("train", "test"))
