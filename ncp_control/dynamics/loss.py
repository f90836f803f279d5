"""The loss that a fit minimises."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ncp_control.data import Batch
from ncp_control.dynamics.errors import read_batch
from ncp_control.dynamics.model import DynamicsModel

STARTS = 4  # steps of each window from which the model continues on its own predictions


def fit_loss(
    model: DynamicsModel, batch: Batch, weight: Tensor | None, robust: float, horizon: int, generator: torch.Generator
) -> Tensor:
    """Returns the loss of a batch.

    If the horizon H is longer than one step, this is the mean of two losses: the teacher-forced one, and that of steps
    2 .. H which the model predicts from its own predictions, starting at a few random steps of the windows.

    :param weight: weights of the features' squared errors, (n,); None gives all the same weight
    :param robust: R, or 0 (see `FitSettings`)
    :param horizon: H
    :param generator: draws the random steps
    """
    if horizon == 1:
        predictions, _ = model(**read_batch(model, batch))
        return step_loss(predictions, batch.targets, weight, robust)
    read = read_batch(model, batch)
    predictions, states = model.unrolled(**read)  # type: ignore[arg-type]
    forced = step_loss(predictions, batch.targets, weight, robust)
    length = batch.targets.shape[1]
    starts = torch.randint(0, length - horizon + 1, (STARTS,), generator=generator).tolist()

    def at(values: Any, ahead: int) -> Any:
        """Returns step start + ahead of every window for each start, (STARTS * B, 1, ...), or None for None."""
        return None if values is None else torch.cat([values[:, start + ahead : start + ahead + 1] for start in starts])

    last, state, free = at(predictions, 0), at(states, 0)[:, 0], []
    for k in range(1, horizon):
        actions, ahead = at(read["actions"], k), at(read["ahead"], k)
        last, state = model(last, actions, state, ahead)
        free.append(step_loss(last, at(batch.targets, k), weight, robust))
    return 0.5 * (forced + torch.stack(free).mean())


def step_loss(predictions: Tensor, targets: Tensor, weight: Tensor | None, robust: float) -> Tensor:
    """Returns the mean over steps of e, the mean squared error of a step, or of `R log(1 + e / R)` if R is given."""
    errors = (predictions - targets).square()
    if weight is not None:
        errors = errors * weight
    if not robust:
        return errors.mean()
    return robust * torch.log1p(errors.mean(-1) / robust).mean()
