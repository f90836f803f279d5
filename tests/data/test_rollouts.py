"""Rollouts in memory: arrays of one's own, slices, and splits of whole rollouts."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from helpers.rollouts import assert_same, trace
from ncp_control.data import Rollout, Rollouts, Split, Windows
from ncp_control.data.rollouts import is_paper_data


def test_lists_tensors_and_arrays_make_the_same_rollout() -> None:
    seen, acted = trace(), trace(5, 2)
    wanted = Rollout(seen, acted, rewards=np.arange(5.0))
    for kind in (np.ndarray.tolist, torch.from_numpy, lambda values: torch.from_numpy(values).requires_grad_()):
        found = Rollout(kind(seen), kind(acted), kind(np.arange(5.0)))
        assert isinstance(found.observations, np.ndarray)
        assert_same(Rollouts((found,)), Rollouts((wanted,)))
    assert len(Rollouts([wanted, wanted])) == 2  # type: ignore[arg-type]
    assert Rollouts([wanted]).rollouts == (wanted,)  # type: ignore[arg-type]
    for bare in ([seen, seen], np.stack([seen, seen]), [seen.tolist()]):
        with pytest.raises(TypeError, match=r"wrap your arrays, Rollouts\(\(Rollout\(observations, actions\)"):
            Rollouts(bare)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rollout: observations must be one array of numbers"):
        Rollout([[0.0, 1.0], [2.0]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="observations must be numbers"):
        Rollout([["a", "b"], ["c", "d"]])  # type: ignore[arg-type]


def test_a_slice_is_rollouts_and_each_has_a_short_repr() -> None:
    found = tuple(Rollout(trace(seed=k), trace(5, 2), rewards=np.ones(5), name=f"r{k}") for k in range(5))
    rollouts = Rollouts(found, ("a", "b", "c"), {"seed": 1}, ("train", "valid", "test", "test", "train"))
    part = rollouts[1:4]
    assert isinstance(part, Rollouts)
    assert [rollout.name for rollout in part] == ["r1", "r2", "r3"]
    assert (part.observation_names, part.about, part.parts) == (("a", "b", "c"), {"seed": 1}, ("valid", "test", "test"))
    assert rollouts[::-1][0] is rollouts[-1]
    with pytest.raises(ValueError, match="at least one rollout, and was given none"):
        rollouts[5:]
    assert repr(found[0]) == "Rollout(r0: 5 steps, observations (3,), actions (2,), return 5.0)"
    assert repr(rollouts) == (
        "Rollouts(5 rollouts, 25 steps, observations (3,), actions (2,), return 5.0 +- 0.0, lowest 5.0)"
    )
    assert repr(Rollout(trace())) == "Rollout(rollout: 5 steps, observations (3,), no actions)"


@pytest.mark.parametrize("count", [3, 4, 5, 7, 25, 26])
def test_every_rollout_is_in_exactly_one_part(count: int) -> None:
    rollouts = Rollouts(tuple(Rollout(trace(seed=k), name=str(k)) for k in range(count)))
    for seed in (None, 1):
        split = rollouts.split(seed)
        assert sorted(int(rollout.name) for part in split for rollout in part) == list(range(count))
        assert all(len(part) for part in split)
    names = [[rollout.name for part in rollouts.split(seed) for rollout in part] for seed in (1, 1, 2)]
    assert names[0] == names[1]
    if count > 5:
        assert names[0] != names[2]


def test_two_rollouts_are_too_few_for_a_split() -> None:
    with pytest.raises(ValueError, match="there must be at least 3, not 2; a single one of at least 3 steps is"):
        Rollouts((Rollout(trace()), Rollout(trace()))).split()
    with pytest.raises(ValueError, match="at least 3, not 1; a single one of at least 3 steps"):
        Rollouts((Rollout(trace(3)),)).split()


def numbered(count: int, **arrays: Any) -> Rollouts:
    """Rollouts whose names are their numbers."""
    return Rollouts(tuple(Rollout(trace(), name=str(k), **arrays) for k in range(count)))


def numbers(split: Split) -> dict[str, list[int]]:
    """The numbers of the rollouts in each part."""
    return {part: [int(rollout.name) for rollout in getattr(split, part)] for part in split._fields}


IN_TIME = {"train": [*range(10)], "valid": [*range(10, 15)], "test": [*range(15, 25)]}
OF_EPISODES = {"valid": [*range(5)], "test": [*range(5, 15)], "train": [*range(15, 25)]}


def test_pieces_of_a_series_train_on_the_earliest_and_test_on_the_latest() -> None:
    split = numbered(25).split()
    assert numbers(split) == numbers(numbered(25, rewards=np.ones(5)).split(series=True)) == IN_TIME
    assert [part.about["series"] for part in split] == [True] * 3
    with pytest.raises(ValueError, match="stay in the order of time: split them without a seed"):
        numbered(25).split(seed=1, series=True)


def test_episodes_of_an_environment_are_split_as_the_papers_files() -> None:
    for own in ({"rewards": np.ones(5)}, {"seed": 3}):
        assert numbers(numbered(25, **own).split()) == OF_EPISODES
    split = numbered(25).split(series=False)
    assert numbers(split) == OF_EPISODES
    assert split.train.about["series"] is False


def paper_like(steps: int = 1000, **arrays: Any) -> Rollouts:
    values = np.zeros((steps, 17))
    return Rollouts(tuple(Rollout(values, name=f"trace_{k:04d}.npy", **arrays) for k in range(25)))


def test_the_papers_traces_are_split_as_in_the_paper() -> None:
    split = paper_like().split()
    assert [part[0].name for part in split] == ["trace_0015.npy", "trace_0000.npy", "trace_0005.npy"]
    assert [part[0].name for part in paper_like(999).split()] == [f"trace_{k:04d}.npy" for k in (0, 10, 15)]
    assert is_paper_data(paper_like())
    for other in (paper_like(999), paper_like()[:24], paper_like()[::-1], paper_like(actions=np.zeros((999, 6)))):
        assert not is_paper_data(other)


def test_a_single_rollout_is_cut_in_time_without_losing_a_step() -> None:
    times, acts = np.arange(11.0), trace(10, 2)
    whole = Rollout(trace(11), acts, acts[:, 0], acts[:, 0] > 0, times, terminated=True, seed=4, name="log")
    rollouts = Rollouts((whole,), ("a", "b", "c"), {"from": "here"}, action_range=np.ones((2, 2)))
    split = rollouts.split()
    (train,), (valid,), (test,) = split
    assert [one.name for one in (train, valid, test)] == [
        "log, steps 0 to 4",
        "log, steps 4 to 6",
        "log, steps 6 to 10",
    ]
    for key in ("actions", "rewards", "is_random"):
        assert_array_equal(np.concatenate([getattr(part[0], key) for part in split]), getattr(whole, key))
    assert_array_equal(np.concatenate([part[0].observations[1:] for part in split]), whole.observations[1:])
    assert_array_equal(test.elapsed, times[6:])
    assert_array_equal(valid.observations[0], train.observations[-1])
    assert [one.terminated for one in (train, valid, test)] == [False, False, True]
    assert (train.seed, valid.seed) == (4, None)
    assert split.train.observation_names == ("a", "b", "c")
    assert split.test.about == {"from": "here", "series": True}
    with pytest.raises(ValueError, match=r"not 1; .* is cut in the order of time, without a seed"):
        rollouts.split(seed=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"elapsed": [1.0, 1.0, 1.0, -0.5, -1.0, 1.0]}, r"walk: elapsed\[3\] is -0.5, and time does not run backwards"),
        ({"elapsed": np.diff([0.0, 0.0, 1.0, 5.0, 3.0, 4.0, 6.0])}, r"walk: elapsed\[3\] is -2.0, .* sort the rows by"),
        ({"elapsed": [1.0, np.nan, 1.0, 1.0, 1.0, 1.0]}, r"walk: elapsed\[1\] is nan: clean the data"),
        ({"elapsed": np.ones((6, 1))}, r"walk: elapsed must be one number a step, \(6,\), got \(6, 1\)"),
        ({"rewards": np.ones((5, 2))}, r"walk: rewards must be one number a step"),
        ({"actions": {"left": np.ones(5)}}, "walk: actions must be one array of numbers, got a dict"),
        ({"observations": np.ones((6, 0))}, "walk: its observations have no columns"),
        ({"observations": {"a": np.ones((6, 1))}}, "walk: observations must be one array of numbers, got a dict"),
        ({"observations": np.array(["2026-01-01"] * 6, "M8[D]")[:, None]}, "walk: observations must be numbers"),
    ],
)
def test_arrays_that_cannot_be_a_rollout_are_refused_by_name(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Rollout(**{"observations": trace(), "name": "walk", **wrong})


def test_two_observations_may_have_the_same_time() -> None:
    assert Rollout(trace(), elapsed=[1, 0, 0, 2, 0, 1]).elapsed.tolist() == [1, 0, 0, 2, 0, 1]  # type: ignore[arg-type, union-attr]


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    values = values.copy()
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "made",
    [
        read_only,
        lambda values: values[::-1].copy()[::-1],
        lambda values: values.astype(values.dtype.newbyteorder()),
        lambda values: values.astype(np.longdouble),
        np.asfortranarray,
    ],
    ids=["read-only", "backwards", "byte-order", "longdouble", "by-columns"],
)
def test_arrays_of_any_layout_become_windows_and_stay_as_they_are(made: Callable[[Any], Any]) -> None:
    plain = {"observations": trace(), "actions": trace(5, 2), "elapsed": np.arange(6.0)}
    given = {key: made(values) for key, values in plain.items()}
    rollouts = [Rollouts((Rollout(**arrays),)) for arrays in (plain, given)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (Windows(found, 3)[[0, 1]] for found in rollouts)
        torch.from_numpy(rollouts[1][0].observations).mul_(2)
    for wanted, found in zip(one, other, strict=True):
        assert torch.equal(wanted, found)
    if made is read_only:
        assert_array_equal(given["observations"], trace())


def test_joined_rollouts_keep_what_their_sources_agree_on() -> None:
    def some(names: tuple[str, ...] = (), **arguments: Any) -> Rollouts:
        return Rollouts((Rollout(np.zeros((3, 2)), np.zeros((2, 1)), seed=1),), names, **arguments)

    one = some(("x", "y"), about={"env": "A-v0", "seed": 1}, action_range=np.array([[-1.0], [1.0]]))
    other = some(about={"env": "A-v0", "seed": 2}, action_range=np.array([[-2.0], [0.5]]))
    joined = Rollouts.joined([one, other, some(about={"env": "A-v0"})])
    assert len(joined) == 3
    assert joined.observation_names == ("x", "y")
    assert joined.about == {"env": "A-v0"}
    assert joined.action_range is not None
    assert joined.action_range.tolist() == [[-2.0], [1.0]]
    assert Rollouts.joined([one]) is one
    with pytest.raises(ValueError, match="observations differ"):
        Rollouts.joined([one, some(("y", "x"))])
    with pytest.raises(ValueError, match="do not belong together"):
        Rollouts.joined([one, Rollouts((Rollout(np.zeros((3, 3)), np.zeros((2, 1))),))])


def test_a_series_and_episodes_are_not_joined() -> None:
    series = Rollouts(tuple(Rollout(np.zeros((3, 2))) for _ in range(5))).split()
    episodes = Rollouts(tuple(Rollout(np.zeros((3, 2)), seed=k) for k in range(5))).split()
    assert [len(part) for part in Split.joined([episodes, episodes])] == [4, 2, 4]
    with pytest.raises(ValueError, match="not fitted together"):
        Split.joined([series, episodes])
