"""How far predictions are from what was observed, one step ahead."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.data import Batch, Rollouts, Windows
from ncp_control.dynamics.simulator import Simulator

ROWS = 1024


def read_batch(model: Simulator, batch: Batch) -> dict[str, Tensor | None]:
    """What the model reads of a batch, as its keyword arguments."""
    return {
        "observations": batch.observations,
        "actions": batch.actions if model.actions else None,
        "ahead": batch.ahead if model.timed else None,
    }


@torch.no_grad()
def squared_errors(model: Simulator, windows: Windows) -> Tensor:
    """Of every window, step and feature, (W, L, n), in the units of the observations."""
    training = model.training
    model.eval()
    found = []
    for batch in windows.loader(ROWS):
        predictions, _ = model(**read_batch(model, batch))
        found.append((predictions - batch.targets).square())
    model.train(training)
    return torch.cat(found)


def robust_error(errors: Tensor, windows: Windows) -> float:
    """The median over rollouts of their mean squared error.

    A mean over all windows would be decided by the few in which something happens that the training part never
    showed, and jump from epoch to epoch.
    """
    parts = errors.double().mean(dim=(1, 2)).split([count for count in windows.counts if count])
    return float(torch.stack([part.mean() for part in parts]).quantile(0.5))


def one_step_error(
    model: Simulator, rollouts: Rollouts, length: int = 32, stride: int = 10, scale: Tensor | None = None
) -> float:
    """The mean squared error of the next observation, teacher-forced over windows that each begin without a memory.

    :param length: steps of a window; what the paper's figures were taken with is the default
    :param stride: between windows
    :param scale: divide errors by this, (n,), first; None leaves them in the units of the observations
    """
    device = next(model.parameters()).device
    windows = Windows(rollouts, length, stride, device=device)
    errors = squared_errors(model, windows)
    if scale is not None:
        errors = errors / scale.to(errors).square()
    return float(errors.double().mean())
