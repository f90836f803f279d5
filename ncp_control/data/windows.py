"""Windows of rollouts for training: large batches, cut from one copy of the data without a Python loop over rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts


class Batch(NamedTuple):
    """B windows of L steps each.

    :param observations: (B, L, n)
    :param targets: (B, L, n), the observation that follows each observation
    :param actions: (B, L, m), the action that was executed between the two; None for bare traces
    :param elapsed: (B, L), the time since the previous observation; None where it is always the same
    :param ahead: (B, L), the time until the target; None where it is always the same
    """

    observations: Tensor
    targets: Tensor
    actions: Tensor | None
    elapsed: Tensor | None
    ahead: Tensor | None


class Windows(Dataset[Batch]):
    """All windows of `length` steps in a set of rollouts. Each window lies within one rollout.

    `windows[indexes]`, for a list or tensor of window numbers, is a `Batch`; `loader` goes through all windows. For a
    `torch.utils.data.DataLoader`, give `batch_size=None` and a `BatchSampler` as the sampler.

    :param rollouts: the rollouts that are cut into windows
    :param length: the number of steps in a window, L
    :param stride: the number of steps from the start of one window to the start of the next in the same rollout
    :param dtype: the type of the tensors
    :param device: the device on which the single copy of the data is kept
    :ivar counts: the number of windows in each rollout
    """

    def __init__(
        self,
        rollouts: Rollouts,
        length: int = 32,
        stride: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if length < 1 or stride < 1:
            raise ValueError(f"length and stride of windows must be at least 1, got {length} and {stride}")
        if all(rollout.steps < length for rollout in rollouts):
            longest = max(rollout.steps for rollout in rollouts)
            raise ValueError(f"no rollout has {length} steps, the longest has {longest}: choose shorter windows")
        self.length, self.stride = length, stride
        ends = np.cumsum([len(rollout.observations) for rollout in rollouts])
        starts = [
            np.arange(end - len(rollout.observations), end - length, stride)
            for end, rollout in zip(ends, rollouts, strict=True)
        ]
        self.counts = [len(own) for own in starts]
        self.starts = torch.from_numpy(np.concatenate(starts)).to(device)
        total = int(ends[-1])
        self.observations = torch.empty(total, rollouts.features, dtype=dtype, device=device)
        first = rollouts[0]
        size = 0 if first.actions is None else int(np.prod(first.actions.shape[1:]))
        self.actions = None if first.actions is None else torch.zeros(total, size, dtype=dtype, device=device)
        timed = any(rollout.elapsed is not None for rollout in rollouts)
        self.elapsed = torch.ones(total, dtype=dtype, device=device) if timed else None
        for end, rollout in zip(ends, rollouts, strict=True):
            rows = slice(int(end) - len(rollout.observations), int(end))
            self.observations[rows] = as_tensor(rollout, "observations", dtype)
            if self.actions is not None:
                self.actions[rows.start : rows.stop - 1] = as_tensor(rollout, "actions", dtype).reshape(-1, size)
            if self.elapsed is not None and rollout.elapsed is not None:
                self.elapsed[rows] = as_tensor(rollout, "elapsed", dtype)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, indexes: int | list[int] | Tensor) -> Batch:
        """Returns the windows of these numbers as a batch; for one number, a batch of one window."""
        numbers = torch.as_tensor(indexes, dtype=torch.long, device=self.starts.device).reshape(-1)
        starts = self.starts[numbers]
        seen = self._cut(self.observations, starts, self.length + 1)
        times = None if self.elapsed is None else self._cut(self.elapsed, starts, self.length + 1)
        return Batch(
            observations=seen[:, :-1],
            targets=seen[:, 1:],
            actions=None if self.actions is None else self._cut(self.actions, starts, self.length),
            elapsed=None if times is None else times[:, :-1],
            ahead=None if times is None else times[:, 1:],
        )

    @staticmethod
    def _cut(values: Tensor, starts: Tensor, length: int) -> Tensor:
        """Returns `length` rows of `values` from each start, by one gather of contiguous memory."""
        size, step = values[0].numel(), values.stride(0)
        every = values.as_strided((len(values) - length + 1, length * size), (step, 1))
        return every.index_select(0, starts).view(len(starts), length, *values.shape[1:])

    def loader(self, batch_size: int, shuffle: bool = False, seed: int = 0, drop_last: bool = False) -> WindowLoader:
        """Returns a loader that goes through all windows in batches.

        :param batch_size: the number of windows in a batch
        :param shuffle: go through the windows in a new random order each time
        :param seed: the seed of all these orders
        :param drop_last: leave out a last batch that is smaller than the others
        """
        return WindowLoader(self, batch_size, shuffle, seed, drop_last)


def as_tensor(rollout: Rollout, key: str, dtype: torch.dtype) -> Tensor:
    """Converts an array of a rollout to a tensor, and refuses numbers that are too large for its type."""
    values = getattr(rollout, key)
    found = torch.as_tensor(values, dtype=dtype)
    large = ~torch.isfinite(found)
    if large.any():
        first = tuple(torch.nonzero(large)[0].tolist())
        raise ValueError(
            f"{rollout.name}: {key}{list(first)} is {values[first]}, too large for {dtype}: scale the data"
        )
    return found


class WindowLoader:
    """Yields all windows in batches, once for each iteration over it."""

    def __init__(self, windows: Windows, batch_size: int, shuffle: bool, seed: int, drop_last: bool) -> None:
        if batch_size < 1:
            raise ValueError(f"a batch needs at least one window, got {batch_size}")
        self.windows, self.batch_size, self.shuffle, self.drop_last = windows, batch_size, shuffle, drop_last
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        count = len(self.windows)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        count = len(self.windows)
        order = torch.randperm(count, generator=self.generator) if self.shuffle else torch.arange(count)
        for k in range(len(self)):
            yield self.windows[order[k * self.batch_size : (k + 1) * self.batch_size]]
