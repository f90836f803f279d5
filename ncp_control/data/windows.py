"""Windows of rollouts for training: large batches, cut from one copy of the data in memory, or read from disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ncp_control.data.columns import Column, column_of
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts

AHEAD = 32  # batches that the disk may begin to fetch before they are needed


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

    Rollouts in memory are copied once, to the device. Rollouts on disk (`Rollouts.stream`) stay there, and every window
    is read when it is needed; their windows have the same numbers and are the same.

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
        self.dtype, self.device = dtype, torch.device(device)
        column = column_of([rollout.observations for rollout in rollouts])
        if column is not None:
            self._leave_on_disk(rollouts, column)
            return
        ends = np.cumsum([len(rollout.observations) for rollout in rollouts])
        starts = [
            np.arange(end - len(rollout.observations), end - length, stride)
            for end, rollout in zip(ends, rollouts, strict=True)
        ]
        self.counts = [len(own) for own in starts]
        self.starts = torch.from_numpy(np.concatenate(starts)).to(device)
        total = int(ends[-1])
        self.observations: Tensor | Column = torch.empty(total, rollouts.features, dtype=dtype, device=device)
        first = rollouts[0]
        size = 0 if first.actions is None else int(np.prod(first.actions.shape[1:]))
        self.actions: Tensor | Column | None = None
        self.elapsed: Tensor | Column | None = None
        if first.actions is not None:
            # a row for the last observation, too, so that all tensors have the same rows
            self.actions = torch.zeros(total, size, dtype=dtype, device=device)
        if any(rollout.elapsed is not None for rollout in rollouts):
            self.elapsed = torch.ones(total, dtype=dtype, device=device)
        for end, rollout in zip(ends, rollouts, strict=True):
            rows = slice(int(end) - len(rollout.observations), int(end))
            self.observations[rows] = as_tensor(rollout, "observations", dtype)
            if self.actions is not None:
                self.actions[rows.start : rows.stop - 1] = as_tensor(rollout, "actions", dtype).reshape(-1, size)
            if self.elapsed is not None and rollout.elapsed is not None:
                self.elapsed[rows] = as_tensor(rollout, "elapsed", dtype)

    def _leave_on_disk(self, rollouts: Rollouts, column: Column) -> None:
        """Notes where each window begins on disk; a rollout has the same rows in every column."""
        starts = [
            rollout.observations.first + np.arange(0, rollout.steps - self.length + 1, self.stride)  # type: ignore[attr-defined]
            for rollout in rollouts
        ]
        self.counts = [len(own) for own in starts]
        self.starts = torch.from_numpy(np.concatenate(starts))
        self.observations = column
        arrays = {key: [getattr(rollout, key) for rollout in rollouts] for key in ("actions", "elapsed")}
        self.actions, self.elapsed = (
            column_of([array for array in own if array is not None]) for own in arrays.values()
        )
        for key, own in (("observations", column), ("actions", self.actions), ("elapsed", self.elapsed)):
            # only a pass over all rows tells which number is too large, so it is made only if there is one
            if own is not None and own.largest > torch.finfo(self.dtype).max:
                for rollout in rollouts:
                    if getattr(rollout, key) is not None:
                        as_tensor(rollout, key, self.dtype)

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

    def batches(self, numbers: Iterable[Tensor]) -> Iterator[Batch]:
        """Yields the windows of each tensor of numbers as a batch. The disk begins early to fetch those that follow.

        :param numbers: the windows' numbers, batch by batch
        """
        waiting: deque[Tensor] = deque()
        for some in numbers:
            self._expect(some)
            waiting.append(some)  # it is read only when AHEAD more have been announced to the disk
            if len(waiting) > AHEAD:
                yield self[waiting.popleft()]
        while waiting:
            yield self[waiting.popleft()]

    def _expect(self, numbers: Tensor) -> None:
        for column in (self.observations, self.actions, self.elapsed):
            if isinstance(column, Column):
                column.expect(self.starts[numbers].tolist(), self.length + 1)

    def _cut(self, values: Tensor | Column, starts: Tensor, length: int) -> Tensor:
        """Returns `length` rows of `values` from each start: from memory, by one gather of contiguous rows."""
        if isinstance(values, Column):
            read = torch.from_numpy(values.cut(starts.tolist(), length))
            rows = read if values is self.elapsed else read.flatten(2) if read.ndim > 2 else read[..., None]
            return rows.to(self.device, self.dtype)
        size, step = values[0].numel(), values.stride(0)
        # Rows overlap in this view, which takes no memory, and one gather from it copies whole windows.
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
    values = np.asarray(values)
    tensor = torch.as_tensor(values, dtype=dtype)
    large = ~torch.isfinite(tensor)
    if large.any():
        first = tuple(torch.nonzero(large)[0].tolist())
        raise ValueError(
            f"{rollout.name}: {key}{list(first)} is {values[first]}, too large for {dtype}: scale the data"
        )
    return tensor


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
        size = self.batch_size
        yield from self.windows.batches(order[k * size : (k + 1) * size] for k in range(len(self)))
