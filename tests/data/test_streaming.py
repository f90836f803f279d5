"""Rollouts on disk are the same as rollouts in memory: their numbers, windows, scales and splits."""

import tracemalloc
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest
import torch
from minari.data_collector import EpisodeBuffer
from numpy.testing import assert_array_equal

from helpers.ranks import in_ranks
from helpers.rollouts import assert_same, rollouts_of
from ncp_control.base.ranks import joined
from ncp_control.data import Rollout, Rollouts, Scaler, Windows, streaming
from ncp_control.data.columns import StoredArray
from ncp_control.data.sources import write_trace
from ncp_control.data.streaming import is_large, size_on_disk

LENGTHS = (40, 25, 33, 50, 41, 28)


def traces(folder: Path, rollouts: Rollouts) -> Path:
    folder.mkdir()
    for k, rollout in enumerate(rollouts):
        write_trace(rollout, folder / f"trace{k}.npz")
    return folder


def sources(folder: Path) -> list[Path]:
    """Folders of traces: with actions, with times in some, bare, and with choices as actions and rewards."""
    random = np.random.default_rng(0)
    timed = list(rollouts_of(*LENGTHS, actions=2, elapsed=True))
    timed[0], timed[3] = (Rollout(timed[k].observations, actions=timed[k].actions) for k in (0, 3))
    chosen = [
        Rollout(
            random.normal(size=(length, 3)).astype(np.float32), actions=random.integers(0, 2, length - 1),
            rewards=random.normal(size=length - 1), is_random=random.random(length - 1) < 0.5, seed=k, terminated=k > 2,
        )
        for k, length in enumerate(LENGTHS)
    ]  # fmt: skip
    found = {"acted": rollouts_of(*LENGTHS, actions=2), "timed": timed, "bare": rollouts_of(*LENGTHS), "chosen": chosen}
    return [traces(folder / name, Rollouts(tuple(own))) for name, own in found.items()]


def test_rollouts_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        kept, here = Rollouts.stream(source, tmp_path), Rollouts.load(source)
        assert isinstance(kept[0].observations, StoredArray)
        assert_same(kept, here)
        assert repr(kept) == repr(here)
        for own, other in zip(kept.split(), here.split(), strict=True):
            assert_same(own, other)
            assert own.about == other.about
            assert isinstance(own[0].observations, StoredArray)
        for what in ("observations", "changes", *(["actions"] if here[0].actions is not None else [])):
            one, two = Scaler.fit(kept.split().train, what), Scaler.fit(here.split().train, what)
            assert_array_equal([one.mean, one.std], [two.mean, two.std])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["acted", "bare", "chosen", "timed"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_on_disk_are_those_in_memory_in_the_same_order(dtype: torch.dtype, tmp_path: Path) -> None:
    for source in sources(tmp_path):
        kept, here = (Windows(part, 7, 3, dtype) for part in (Rollouts.stream(source), Rollouts.load(source)))
        assert len(kept) == len(here)
        assert kept.counts == here.counts
        pairs = zip(kept.loader(5, shuffle=True, seed=3), here.loader(5, shuffle=True, seed=3), strict=True)
        for one, two in pairs:
            for own, other in zip(one, two, strict=True):
                assert (own is None) == (other is None)
                assert own is None or torch.equal(own, other)


def test_a_series_in_one_file_is_split_and_stays_on_disk(tmp_path: Path) -> None:
    write_trace(rollouts_of(200, actions=1)[0], tmp_path / "long.npz")
    kept, here = Rollouts.stream(tmp_path / "long.npz"), Rollouts.load(tmp_path / "long.npz")
    for own, other in zip(kept.split(), here.split(), strict=True):
        assert_same(own, other)
        assert isinstance(own[0].observations, StoredArray)
        assert torch.equal(Windows(own, 9)[[0, 4]].targets, Windows(other, 9)[[0, 4]].targets)


def write_minari(name: str, episodes: int, steps: int, actions: gym.Space) -> None:
    random = np.random.default_rng(0)
    choices = (5 if isinstance(actions, gym.spaces.Discrete) else 0) + np.arange(3)
    buffers = [
        EpisodeBuffer(
            id=k, observations=random.normal(size=(steps + 1, 17)),
            actions=random.choice(choices, (steps, *(actions.shape or ()))), rewards=random.normal(size=steps),
            terminations=np.zeros(steps, bool), truncations=np.arange(steps) == steps - 1,
        )
        for k in range(episodes)
    ]  # fmt: skip
    space = gym.spaces.Box(-np.inf, np.inf, (17,), np.float64)
    with pytest.warns(UserWarning, match="None"):
        minari.create_dataset_from_buffers(name, buffers, observation_space=space, action_space=actions)


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def test_choices_of_a_minari_dataset_are_kept_as_vectors(datasets: Path) -> None:
    write_minari("other/choices-v0", 4, 12, gym.spaces.Discrete(3, start=5))
    kept, here = Rollouts.stream("other/choices-v0", one_hot=True), Rollouts.load("other/choices-v0").one_hot()
    assert_same(kept, here)
    assert (kept.choices, kept.one_hot()) == (None, kept)
    assert_array_equal(kept.action_range, here.action_range)
    plain = Rollouts.stream(minari.load_dataset("other/choices-v0"))
    assert plain.choices == range(5, 8)
    assert_same(plain.one_hot(), here)


@pytest.mark.system
def test_a_dataset_is_read_a_rollout_at_a_time(datasets: Path) -> None:
    write_minari("other/large-v0", 60, 2000, gym.spaces.MultiDiscrete([3, 3]))
    size = 60 * 2001 * 17 * 8
    assert size_on_disk("other/large-v0") > size
    most = []
    for read in (Rollouts.load, Rollouts.stream):
        tracemalloc.start()
        train = read("other/large-v0").split().train
        Scaler.fit(train)
        assert sum(len(batch.targets) for batch in Windows(train, 32, 50).loader(16, shuffle=True)) == 24 * 40
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[0] > size
    assert most[1] < 0.2 * size


def test_processes_share_one_copy(tmp_path: Path) -> None:
    source = traces(tmp_path / "data", rollouts_of(*LENGTHS, actions=2))

    def work() -> tuple[int, float]:
        with joined() as ranks:
            kept = Rollouts.stream(source, tmp_path, ranks=ranks)
            column = kept[0].observations.column  # type: ignore[attr-defined]
            return Path(f"/proc/self/fd/{column._file.fileno()}").stat().st_ino, float(np.sum(kept[3].observations))

    one, other = in_ranks(2, work, tmp_path)
    assert one == other
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_is_large_is_streamed_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = traces(tmp_path / "data", rollouts_of(*LENGTHS))
    assert size_on_disk(source) == sum(path.stat().st_size for path in source.iterdir())
    assert size_on_disk(source / "trace0.npz") == (source / "trace0.npz").stat().st_size
    assert not is_large(source)
    monkeypatch.setattr(streaming, "memory_size", lambda: 4 * size_on_disk(source))
    assert (is_large(source), is_large(source, source), is_large(source, processes=2)) == (False, True, True)
    assert not is_large("nowhere", processes=10)


def test_what_cannot_be_kept_together_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    narrow, wide, coarse = (random.normal(size=size) for size in ((9, 2), (9, 3), (9, 2)))
    for other, words in (
        (Rollout(wide), r"trace1.npz has observations of shape \(3,\) a step, the rollouts before it of \(2,\)"),
        (Rollout(coarse), "trace1.npz has observations of float64, the rollouts before it of float32: make all of one"),
        (Rollout(narrow.astype(np.float32), actions=narrow[1:]), "only one has actions: they do not belong together"),
    ):
        source = traces(tmp_path / "data", Rollouts((Rollout(narrow.astype(np.float32)),)))
        write_trace(other, source / "trace1.npz")
        with pytest.raises(ValueError, match=words):
            Rollouts.stream(source, tmp_path)
        for path in source.iterdir():
            path.unlink()
        source.rmdir()
    for source in ("nowhere", tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="no file, folder or Minari dataset"):
            Rollouts.stream(source, tmp_path)
    with pytest.raises(TypeError, match="reads a path, a Minari id"):
        Rollouts.stream(np.zeros((4, 2)), tmp_path)
    assert list(tmp_path.iterdir()) == []
    source = traces(tmp_path / "data", rollouts_of(*LENGTHS))
    with pytest.raises(FileNotFoundError, match="missing"):
        Rollouts.stream(source, tmp_path / "missing")


def test_numbers_that_are_too_large_for_windows_are_refused_from_disk_too(tmp_path: Path) -> None:
    values = np.ones((9, 2))
    values[4, 1] = -1e39
    source = traces(tmp_path / "data", Rollouts((Rollout(np.ones((9, 2))), Rollout(values))))
    kept = Rollouts.stream(source)
    assert len(Windows(kept, 3, dtype=torch.float64)) == 2 * 6
    assert len(Windows(kept[:1], 3)) == 6
    with pytest.raises(ValueError, match=r"trace1.npz: observations\[4, 1\] is -1e\+39, too large for torch.float32"):
        Windows(kept, 3)
