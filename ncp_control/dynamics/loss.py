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
    model: DynamicsModel, batch: Batch, weight: Tensor | None, robust: float, horizon: int, starts: Tensor | None,
    share: float = 0.5, astray: float = 0.0,
) -> Tensor:  # fmt: skip
    """Returns the loss of a batch. Nothing here waits for a GPU, so that a CUDA graph can hold it.

    If the horizon H is longer than one step, this is the weighted mean of two losses: the teacher-forced one, and that
    of steps 2 .. H which the model predicts from its own predictions, starting at a few random steps of the windows.

    :param weight: weights of the features' squared errors, (n,); None gives all the same weight
    :param robust: R, or 0 (see `FitSettings`)
    :param horizon: H
    :param starts: these steps, as `draw_starts` returns them
    :param share: the weight of the teacher-forced loss, 0 to 1
    :param astray: R for the steps that the model predicts from its own predictions
    """
    if starts is None:
        predictions, _ = model(**read_batch(model, batch))
        return step_loss(predictions, batch.targets, weight, robust)
    read = read_batch(model, batch)
    predictions, states = model.unrolled(**read)  # type: ignore[arg-type]
    forced = step_loss(predictions, batch.targets, weight, robust)
    spans = starts[:, None] + torch.arange(horizon, device=starts.device)

    def steps(values: Any, first: int, last: int) -> Any:
        """Returns steps start + first .. start + last of every window for each start, (STARTS * B, ...)."""
        if not isinstance(values, Tensor) or values.dim() < 2:
            return values
        return torch.cat([values.index_select(1, span[first:last]) for span in spans])

    actions, ahead = steps(read["actions"], 1, horizon), steps(read["ahead"], 1, horizon)
    last, state = steps(predictions, 0, 1), steps(states, 0, 1)[:, 0]
    found, _ = model.run_free(last, state, horizon - 1, actions, ahead)
    free = step_loss(found, steps(batch.targets, 1, horizon), weight, astray)
    return share * forced + (1 - share) * free


def draw_starts(length: int, horizon: int, generator: torch.Generator, device: torch.device) -> Tensor | None:
    """Draws the steps from which a model continues on its own predictions, (STARTS,), without waiting for a GPU.

    :param length: steps of a window
    :param horizon: steps that follow from each; 1 needs no steps to start from, and nothing is drawn
    """
    if horizon == 1:
        return None
    starts = torch.randint(0, length - horizon + 1, (STARTS,), generator=generator)
    return starts.to(device, non_blocking=True)


def step_loss(predictions: Tensor, targets: Tensor, weight: Tensor | None, robust: float) -> Tensor:
    """Returns the mean over steps of e, the mean squared error of a step, or of `R log(1 + e / R)` if R is given."""
    errors = (predictions - targets).square()
    if weight is not None:
        errors = errors * weight
    if not robust:
        return errors.mean()
    return robust * torch.log1p(errors.mean(-1) / robust).mean()
