"""Rollouts in memory: arrays of one's own, slices, and splits of whole rollouts."""

import numpy as np
import pytest
import torch

from helpers.rollouts import assert_same, trace
from ncp_control.data import Rollout, Rollouts


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
    assert repr(rollouts) == "Rollouts(5 rollouts, 25 steps, observations (3,), actions (2,))"
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
    with pytest.raises(ValueError, match="at least 3"):
        Rollouts((Rollout(trace()), Rollout(trace()))).split()


def test_25_rollouts_are_split_as_in_the_paper() -> None:
    split = Rollouts(tuple(Rollout(trace(), name=str(k)) for k in range(25))).split()
    numbers = {part: [int(rollout.name) for rollout in getattr(split, part)] for part in split._fields}
    assert numbers == {"valid": list(range(5)), "test": list(range(5, 15)), "train": list(range(15, 25))}
