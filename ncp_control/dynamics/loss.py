"""What a fit makes small."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ncp_control.data import Batch
from ncp_control.dynamics.errors import read_batch
from ncp_control.dynamics.model import DynamicsModel

STARTS = 4  # steps of a batch's windows from which the model is left to itself


def fit_loss(
    model: DynamicsModel, batch: Batch, weight: Tensor | None, robust: float, horizon: int, generator: torch.Generator
) -> Tensor:
    """The loss of a batch.

    With a horizon H of more than one step, the mean of the teacher-forced loss and of that of steps 2 .. H on the
    model's own predictions, from a few steps of the windows drawn at random.

    :param weight: of the features' squared errors, (n,); None weighs all alike
    :param robust: R, or 0 (see `FitSettings`)
    """
    if horizon == 1:
        predictions, _ = model(**read_batch(model, batch))
        return of_steps(predictions, batch.targets, weight, robust)
    read = read_batch(model, batch)
    predictions, states = model.unrolled(**read)  # type: ignore[arg-type]
    forced = of_steps(predictions, batch.targets, weight, robust)
    length = batch.targets.shape[1]
    starts = torch.randint(0, length - horizon + 1, (STARTS,), generator=generator).tolist()

    def at(values: Any, ahead: int) -> Any:
        """Step start + ahead of every window, for each start, (STARTS * B, 1, ...); None of None."""
        return None if values is None else torch.cat([values[:, start + ahead : start + ahead + 1] for start in starts])

    last, state, free = at(predictions, 0), at(states, 0)[:, 0], []
    for k in range(1, horizon):
        actions, ahead = at(read["actions"], k), at(read["ahead"], k)
        last, state = model(last, actions, state, ahead)
        free.append(of_steps(last, at(batch.targets, k), weight, robust))
    return 0.5 * (forced + torch.stack(free).mean())


def of_steps(predictions: Tensor, targets: Tensor, weight: Tensor | None, robust: float) -> Tensor:
    """The mean over steps of e, the mean squared error of a step, or of `R log(1 + e / R)`."""
    errors = (predictions - targets).square()
    if weight is not None:
        errors = errors * weight
    if not robust:
        return errors.mean()
    return robust * torch.log1p(errors.mean(-1) / robust).mean()
