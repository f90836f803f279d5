"""Series of different length as tensors: batches of padded windows for training, and of whole series for testing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.series.data import NO_CLASS, SeriesData
from ncp_control.series.splitting import is_known


class SeriesBatch(NamedTuple):
    """B pieces of series of at most L rows each. What follows the end of a piece repeats its last row, and has no
    known target.

    :param inputs: (B, L, I), NaN where a value is missing
    :param targets: class numbers (B, L), or numbers (B, L, O); of whole series (B,) or (B, O). Where one is not
        known it is `NO_CLASS` or NaN
    :param elapsed: (B, L); None where rows are equally far apart
    :param counts: the number of rows of each piece, (B,)
    """

    inputs: Tensor
    targets: Tensor
    elapsed: Tensor | None
    counts: Tensor


class SeriesRows:
    """The rows of all series in one tensor, and the pieces of which batches are made.

    Pieces of rows with targets of their own have at most `length` rows and begin `stride` rows apart; the last piece
    of a series ends with it. A whole series with one target is one piece. Pieces without a known target are left out.

    :param data: the series
    :param length: the most rows of a piece; 0 makes each series one piece
    :param stride: rows from one piece to the next of the same series
    :param device: the device of the tensors
    """

    def __init__(self, data: SeriesData, length: int = 0, stride: int = 1, device: torch.device | str = "cpu") -> None:
        self.data, self.device = data, torch.device(device)
        starts, counts, own = [], [], []
        before = 0
        for number, series in enumerate(data.series):
            rows = len(series.inputs)
            known: NDArray[np.bool_] = np.asarray(is_known(series.targets).reshape(len(series.targets), -1).any(axis=1))
            if data.whole or not length or rows <= length:
                begins = [0]
            else:
                # the last piece ends with the series, even out of step, so that no row is left out
                begins = sorted({*range(0, rows - length, stride), rows - length})
            for begin in begins:
                count = rows if data.whole or not length else min(length, rows)
                # a piece without a target would teach nothing
                if known.any() if data.whole else known[begin : begin + count].any():
                    starts.append(before + begin)
                    counts.append(count)
                    own.append(number)
            before += rows
        self.starts = torch.tensor(starts, dtype=torch.long, device=self.device)
        self.counts = torch.tensor(counts, dtype=torch.long, device=self.device)
        self.numbers = torch.tensor(own, dtype=torch.long, device=self.device)
        self.inputs = self._tensor(np.concatenate([series.inputs for series in data.series]))
        self.targets = self._tensor(np.concatenate([series.targets for series in data.series]))
        self.elapsed = None
        if any(series.elapsed is not None for series in data.series):
            self.elapsed = self._tensor(
                np.concatenate(
                    [
                        np.ones(len(series.inputs)) if series.elapsed is None else series.elapsed
                        for series in data.series
                    ]
                )
            )

    def __len__(self) -> int:
        return len(self.starts)

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        whole = np.issubdtype(values.dtype, np.integer)
        return torch.as_tensor(values, dtype=torch.long if whole else torch.float32).to(self.device)

    def batch(self, numbers: Tensor) -> SeriesBatch:
        """Returns some pieces, by their numbers."""
        starts, count = self.starts[numbers], self.counts[numbers]
        steps = torch.arange(int(count.max()), device=self.device)
        rows = starts[:, None] + torch.minimum(steps[None], count[:, None] - 1)
        if self.data.whole:
            targets = self.targets[self.numbers[numbers]]
        else:
            targets = self.targets[rows]  # a copy, so that targets beyond the end of a piece can be taken out of it
            targets[steps[None] >= count[:, None]] = NO_CLASS if targets.dtype == torch.long else torch.nan
        return SeriesBatch(self.inputs[rows], targets, None if self.elapsed is None else self.elapsed[rows], count)

    def batches(self, numbers: Iterable[Tensor]) -> Iterator[SeriesBatch]:
        """Yields a batch for each tensor of numbers."""
        for own in numbers:
            yield self.batch(own)


def known_targets(targets: Tensor) -> Tensor:
    """Whether targets are known: class numbers (...) or numbers (..., O)."""
    return targets != NO_CLASS if targets.dtype == torch.long else ~torch.isnan(targets)
