"""Errors of predictions one step ahead."""

from __future__ import annotations

import torch
from torch import Tensor

from ncp_control.base.ranks import Ranks
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


@torch.no_grad()
def window_errors(
    model: Simulator, windows: Windows, weight: Tensor | None = None, ranks: Ranks | None = None
) -> Tensor:
    """Returns the mean squared error of every window, (W,) in float64.

    :param weight: of the features' squared errors, (n,); None leaves them in the units of the observations
    :param ranks: processes that share the work; each has the same model and windows, and gets all errors
    """
    training = model.training
    model.eval()
    ranks = ranks or Ranks()
    means = torch.zeros(len(windows), dtype=torch.float64, device=windows.device)
    shares = ranks.share(torch.arange(len(windows))).split(BATCH)
    for numbers, batch in zip(shares, windows.batches(shares), strict=True):
        predictions, _ = model(**read_batch(model, batch))
        errors = (predictions - batch.targets).square()
        errors = errors if weight is None else errors * weight
        means[numbers.to(means.device)] = errors.double().mean(dim=(1, 2))
    model.train(training)
    return ranks.sum(means)


@torch.no_grad()
def free_errors(
    model: Simulator, windows: Windows, horizon: int, weight: Tensor | None, robust: float, ranks: Ranks
) -> Tensor:
    """Returns the mean error of every window's last steps, which the model predicts from its own predictions, (W,).

    The model reads the first L - H + 1 observations of a window of L steps, predicts the next one, and goes on from
    there: the errors of its steps 2 .. H count. It always reads the true actions.

    :param horizon: H, at least 2
    :param weight: as in `window_errors`
    :param robust: R: a step's mean squared error e counts as R log(1 + e / R); 0: e itself counts
    :param ranks: as in `window_errors`
    """
    training = model.training
    model.eval()
    means = torch.zeros(len(windows), dtype=torch.float64, device=windows.device)
    shares = ranks.share(torch.arange(len(windows))).split(BATCH)
    first = windows.length - horizon + 1  # the model reads as many observations as it does not have to predict
    for numbers, batch in zip(shares, windows.batches(shares), strict=True):
        read = read_batch(model, batch)
        seen = batch.observations[:, :first]
        predictions = model.continued(seen, horizon, read["actions"], read["ahead"])[:, 1:]
        errors = (predictions - batch.targets[:, first:]).square()
        steps = (errors if weight is None else errors * weight).double().mean(dim=2)
        means[numbers.to(means.device)] = (robust * torch.log1p(steps / robust) if robust else steps).mean(dim=1)
    model.train(training)
    return ranks.sum(means)


def rollout_errors(errors: Tensor, windows: Windows) -> Tensor:
    """Returns the mean squared error of every rollout, (R,); NaN for one that is shorter than a window.

    :param errors: of all windows, as `window_errors` returns them
    :param windows: the windows
    """
    return torch.stack([part.mean() for part in errors.split(windows.counts)])


def robust_error(errors: Tensor, windows: Windows) -> float:
    """Returns the median over rollouts of each rollout's mean squared error.

    A few windows with events that the training part never shows would dominate a mean over all windows, which would
    then jump from epoch to epoch.

    :param errors: of all windows, as `window_errors` returns them
    :param windows: the windows
    """
    found = rollout_errors(errors, windows)  # NaN for rollouts shorter than a window, which do not vote
    return float(found[[count > 0 for count in windows.counts]].quantile(0.5))


def one_step_error(
    model: Simulator, rollouts: Rollouts, length: int = 32, stride: int = 10, scale: Tensor | None = None,
    ranks: Ranks | None = None,
) -> float:  # fmt: skip
    """Returns the mean squared error of the next observation, teacher-forced over windows.

    Each window starts from the initial state.

    :param length: steps of a window; the default is the paper's
    :param stride: steps from one window to the next
    :param scale: errors are divided by this, (n,); None leaves them in the units of the observations
    :param ranks: processes that share the work, as in `window_errors`
    """
    device = next(model.parameters()).device
    windows = Windows(rollouts, length, stride, device=device)
    weight = None if scale is None else 1 / scale.to(device).square()
    return float(window_errors(model, windows, weight, ranks).mean())
