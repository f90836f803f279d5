"""Windows of rollouts are what slicing by hand gives."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from helpers.rollouts import rollouts_of
from ncp_control.data import Rollout, Rollouts, Windows


def by_hand(rollouts: Rollouts, length: int, stride: int) -> list[tuple[Any, ...]]:
    """Every window by plain slicing."""
    found = []
    for rollout in rollouts:
        for start in range(0, rollout.steps - length + 1, stride):
            stop = start + length
            found.append(
                (
                    rollout.observations[start:stop],
                    rollout.observations[start + 1 : stop + 1],
                    None if rollout.actions is None else rollout.actions[start:stop],
                    None if rollout.elapsed is None else rollout.elapsed[start:stop],
                    None if rollout.elapsed is None else rollout.elapsed[start + 1 : stop + 1],
                )
            )
    return found


@pytest.mark.system
@given(
    lengths=st.lists(st.integers(2, 40), min_size=1, max_size=5),
    length=st.integers(1, 12),
    stride=st.integers(1, 15),
    actions=st.sampled_from([None, 1, 2]),
    elapsed=st.booleans(),
)
def test_windows_are_slices(lengths: list[int], length: int, stride: int, actions: int | None, elapsed: bool) -> None:
    rollouts = rollouts_of(*lengths, actions=actions, elapsed=elapsed)
    expected = by_hand(rollouts, length, stride)
    if not expected:
        with pytest.raises(ValueError, match="choose shorter windows"):
            Windows(rollouts, length, stride)
        return
    windows = Windows(rollouts, length, stride, dtype=torch.float64)
    assert len(windows) == len(expected)
    batch = windows[torch.arange(len(windows))]
    for values, own in zip(batch, zip(*expected, strict=True), strict=True):
        if values is None:
            assert own[0] is None
        else:
            assert values.dtype == torch.float64
            assert_array_equal(values.numpy(), np.stack(own))


def test_a_window_and_a_list_of_windows_are_batches() -> None:
    windows = Windows(rollouts_of(20, 30, actions=2), 5, 3)
    assert windows[4].observations.shape == (1, 5, 3)
    few = windows[[7, 0, 7]]
    assert few.observations.shape == (3, 5, 3)
    assert torch.equal(few.targets[0], few.targets[2])
    assert torch.equal(windows[torch.tensor(0)].targets[0], few.targets[1])
    assert few.actions is not None
    assert few.actions.shape == (3, 5, 2)


def test_discrete_actions_and_missing_elapsed_times_become_numbers() -> None:
    first, second = rollouts_of(4, 5, elapsed=True)
    choices = [
        Rollout(first.observations, actions=np.array([1, 0, 1])),
        Rollout(second.observations, actions=np.array([0, 0, 1, 1]), elapsed=second.elapsed),
    ]
    batch = Windows(Rollouts(tuple(choices)), 3)[[0, 1]]
    assert batch.actions is not None
    assert batch.elapsed is not None
    assert batch.actions[:, :, 0].tolist() == [[1, 0, 1], [0, 0, 1]]
    assert batch.elapsed[0].tolist() == [1, 1, 1]
    assert second.elapsed is not None
    assert_allclose(batch.elapsed[1], second.elapsed[:3], rtol=1e-6)


def test_the_data_lies_in_memory_once() -> None:
    rollouts = rollouts_of(1000, 1000)
    windows = Windows(rollouts, 100, 1)
    held = [value for value in vars(windows).values() if isinstance(value, torch.Tensor)]
    numbers = sum(value.untyped_storage().nbytes() // value.element_size() for value in held)
    assert numbers == 2000 * 3 + len(windows)  # the observations, and where each window starts
    batch = windows[[1, 2]]
    assert batch.observations.untyped_storage().data_ptr() == batch.targets.untyped_storage().data_ptr()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_yields_every_window_once(shuffle: bool) -> None:
    windows = Windows(rollouts_of(20, 30), 5)
    loader = windows.loader(8, shuffle=shuffle)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-len(windows) // 8)
    met = torch.cat([batch.observations[:, 0, 0] for batch in batches])
    everything = windows[torch.arange(len(windows))].observations[:, 0, 0]
    assert torch.equal(met.sort().values, everything.sort().values)
    assert torch.equal(met, everything) == (not shuffle)
    whole = windows.loader(8, shuffle=shuffle, drop_last=True)
    assert [len(batch.observations) for batch in whole] == [8] * (len(windows) // 8) == [8] * len(whole)


def test_shuffled_orders_differ_and_follow_from_the_seed() -> None:
    windows = Windows(rollouts_of(40), 5)

    def orders(seed: int) -> list[list[float]]:
        loader = windows.loader(7, shuffle=True, seed=seed)
        return [[x for batch in loader for x in batch.observations[:, 0, 0].tolist()] for _ in range(2)]

    assert orders(1)[0] != orders(1)[1]
    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_a_data_loader_of_torch_reads_windows() -> None:
    windows = Windows(rollouts_of(40, actions=1), 5)
    sampler = BatchSampler(RandomSampler(range(len(windows))), batch_size=8, drop_last=False)
    batches = list(DataLoader(windows, batch_size=None, sampler=sampler))
    assert [len(batch.observations) for batch in batches] == [8, 8, 8, 8, len(windows) - 32]
    starts = torch.cat([batch.observations[:, 0, 0] for batch in batches])
    assert len(starts.unique()) == len(windows)
    assert batches[0].actions.shape == (8, 5, 1)


@pytest.mark.parametrize(("length", "stride"), [(0, 1), (1, 0), (-1, 1)])
def test_windows_without_length_or_stride_are_refused(length: int, stride: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Windows(rollouts_of(10), length, stride)


def test_a_batch_without_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one window"):
        Windows(rollouts_of(10), 3).loader(0)


def test_numbers_that_are_too_large_for_the_windows_are_refused() -> None:
    values = np.ones((9, 2))
    values[4, 1] = 1e39
    rollouts = Rollouts((Rollout(values, name="spike"),))
    assert Windows(rollouts, 3, dtype=torch.float64).observations[4, 1] == 1e39
    with pytest.raises(ValueError, match=r"spike: observations\[4, 1\] is 1e\+39, too large for torch.float32: scale"):
        Windows(rollouts, 3)
