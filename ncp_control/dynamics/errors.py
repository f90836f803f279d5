"""Errors of predictions one step ahead."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.data import Batch, Rollouts, Windows
from ncp_control.dynamics.simulator import Simulator

BATCH = 1024  # windows in one call of the model


def read_batch(model: Simulator, batch: Batch) -> dict[str, Tensor | None]:
    """Returns the parts of a batch that the model reads, as its keyword arguments."""
    return {
        "observations": batch.observations,
        "actions": batch.actions if model.action_size else None,
        "ahead": batch.ahead if model.timed else None,
    }


@torch.no_grad()
def squared_errors(model: Simulator, windows: Windows) -> Tensor:
    """Returns the squared error of every window, step and feature, (W, L, n), in the units of the observations."""
    training = model.training
    model.eval()
    found = []
    for batch in windows.loader(BATCH):
        predictions, _ = model(**read_batch(model, batch))
        found.append((predictions - batch.targets).square())
    model.train(training)
    return torch.cat(found)


def robust_error(errors: Tensor, windows: Windows) -> float:
    """Returns the median over rollouts of each rollout's mean squared error.

    A few windows with events that the training part never shows would dominate a mean over all windows, which would
    then jump from epoch to epoch.

    :param errors: of all windows, as `squared_errors` returns them
    :param windows: the windows
    """
    parts = errors.double().mean(dim=(1, 2)).split([count for count in windows.counts if count])
    return float(torch.stack([part.mean() for part in parts]).quantile(0.5))


def one_step_error(
    model: Simulator, rollouts: Rollouts, length: int = 32, stride: int = 10, scale: Tensor | None = None
) -> float:
    """Returns the mean squared error of the next observation, teacher-forced over windows.

    Each window starts from the initial state.

    :param length: steps of a window; the default is the paper's
    :param stride: steps from one window to the next
    :param scale: errors are divided by this, (n,); None leaves them in the units of the observations
    """
    device = next(model.parameters()).device
    windows = Windows(rollouts, length, stride, device=device)
    errors = squared_errors(model, windows)
    if scale is not None:
        errors = errors / scale.to(errors).square()
    return float(errors.double().mean())
