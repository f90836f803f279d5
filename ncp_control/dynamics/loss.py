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
    model: DynamicsModel, batch: Batch, weight: Tensor | None, robust: float, horizon: int, generator: torch.Generator,
    share: float = 0.5,
) -> Tensor:  # fmt: skip
    """Returns the loss of a batch.

    If the horizon H is longer than one step, this is the weighted mean of two losses: the teacher-forced one, and that
    of steps 2 .. H which the model predicts from its own predictions, starting at a few random steps of the windows.

    :param weight: weights of the features' squared errors, (n,); None gives all the same weight
    :param robust: R, or 0 (see `FitSettings`)
    :param horizon: H
    :param generator: draws the random steps
    :param share: the weight of the teacher-forced loss, 0 to 1
    """
    if horizon == 1:
        predictions, _ = model(**read_batch(model, batch))
        return step_loss(predictions, batch.targets, weight, robust)
    read = read_batch(model, batch)
    predictions, states = model.unrolled(**read)  # type: ignore[arg-type]
    forced = step_loss(predictions, batch.targets, weight, robust)
    length = batch.targets.shape[1]
    starts = torch.randint(0, length - horizon + 1, (STARTS,), generator=generator).tolist()

    def steps(values: Any, first: int, last: int) -> Any:
        """Returns steps start + first .. start + last of every window for each start, (STARTS * B, ...)."""
        if not isinstance(values, Tensor) or values.dim() < 2:
            return values
        return torch.cat([values[:, start + first : start + last] for start in starts])

    actions, ahead = steps(read["actions"], 1, horizon), steps(read["ahead"], 1, horizon)
    last, state = steps(predictions, 0, 1), steps(states, 0, 1)[:, 0]
    found, _ = model.run_free(last, state, horizon - 1, actions, ahead)
    free = step_loss(found, steps(batch.targets, 1, horizon), weight, robust)
    return share * forced + (1 - share) * free


def step_loss(predictions: Tensor, targets: Tensor, weight: Tensor | None, robust: float) -> Tensor:
    """Returns the mean over steps of e, the mean squared error of a step, or of `R log(1 + e / R)` if R is given."""
    errors = (predictions - targets).square()
    if weight is not None:
        errors = errors * weight
    if not robust:
        return errors.mean()
    return robust * torch.log1p(errors.mean(-1) / robust).mean()
