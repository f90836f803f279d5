"""What a model tells of many series, with long series read a piece at a time."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ncp_control.series.model import SeriesModel
from ncp_control.series.rows import SeriesRows, known_targets

AT_ONCE, PIECE = 64, 512  # series that are read together, and rows of each that are read at once


class Told(NamedTuple):
    """What was told of N rows, or of N whole series, and what is true.

    :param outputs: logits (N, C) or numbers (N, O)
    :param targets: class numbers (N,) or numbers (N, O), `NO_CLASS` or NaN where one is not known
    """

    outputs: Tensor
    targets: Tensor


@torch.no_grad()
def tell(model: SeriesModel, rows: SeriesRows) -> Told:
    """Reads every series from its first row to its last, and returns what the model tells.

    The state goes from piece to piece, so that the result is that of one pass over each series.

    :param rows: whole series, each one piece (`length=0`), in the order of which the results are
    """
    was_training = model.training
    model.eval()
    # series of similar length together, so that little of a batch is padding
    order = torch.argsort(rows.counts, stable=True)
    results: dict[int, tuple[Tensor, Tensor]] = {}
    for numbers in order.split(AT_ONCE):
        batch = rows.batch(numbers)
        steps, state, parts = batch.inputs.shape[1], None, []
        last: Tensor | None = None
        for begin in range(0, steps, PIECE):
            end = min(begin + PIECE, steps)
            elapsed = None if batch.elapsed is None else batch.elapsed[:, begin:end]
            # 1 for a series that has ended, whose new output nobody takes
            count = (batch.counts - begin).clamp(1, end - begin)
            outputs, state = model(batch.inputs[:, begin:end], elapsed, state, count if model.whole else None)
            if model.whole:
                ends_here = (batch.counts > begin)[:, None]
                last = outputs if last is None else torch.where(ends_here, outputs, last)
            else:
                parts.append(outputs)
        if last is not None:
            results |= {int(k): (last[i : i + 1], batch.targets[i : i + 1]) for i, k in enumerate(numbers)}
        else:
            whole = torch.cat(parts, dim=1)
            for i, k in enumerate(numbers):
                rows_of_it = int(batch.counts[i])
                results[int(k)] = whole[i, :rows_of_it], batch.targets[i, :rows_of_it]
    model.train(was_training)
    ordered = [results[k] for k in range(len(rows))]
    return Told(torch.cat([output for output, _ in ordered]), torch.cat([target for _, target in ordered]))


def error_of(model: SeriesModel, outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean error over known targets, which is the loss of a fit.

    Classes: the cross entropy, -log of the true class's probability. Numbers: ((output - target) / target_std)^2.

    :param outputs: what the model tells, logits (..., C) or numbers (..., O)
    :param targets: class numbers (...) or numbers (..., O)
    """
    known = known_targets(targets)
    if model.classes:
        chosen = torch.nn.functional.cross_entropy(outputs[known], targets[known], reduction="sum")
        return chosen / known.sum()
    # in the place of an unknown target its own answer, so that the error and its gradient are 0
    errors = (outputs - torch.where(known, targets, outputs.detach())) / model.target_std
    return errors.square().sum() / known.sum()
