"""What one can predict without a network: the rows that any model of the dynamics has to beat.

Errors are mean squared errors of the next observation, over all features, as they are or each over its scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.data.rollouts import Rollouts
from ncp_control.data.windows import Batch, Windows

Array = NDArray[np.float64]


def persistence_error(test: Windows, scale: Array | None = None) -> float:
    """Of saying that the next observation is this one.

    :param scale: what errors are divided by, (n,); None leaves them as they are
    """
    return _mean(test, lambda batch: batch.observations, scale)


def mean_error(train: Windows, test: Windows, scale: Array | None = None) -> float:
    """Of always saying the mean of the training windows' targets."""
    totals = torch.stack([batch.targets.double().sum((0, 1)) for batch in train.loader(4096)])
    mean = totals.sum(0) / (len(train) * train.length)
    return _mean(test, lambda batch: mean, scale)


def _mean(windows: Windows, predict: Callable[[Batch], Tensor], scale: Array | None) -> float:
    """The mean squared error of a prediction over all windows."""
    by = 1.0 if scale is None else torch.as_tensor(scale)
    total = sum(
        ((batch.targets - predict(batch)).double() / by).square().mean(2).sum() for batch in windows.loader(4096)
    )
    return float(total) / (len(windows) * windows.length)


def linear_error(
    train: Rollouts, test: Rollouts, lags: int = 1, actions: bool = False, scale: Array | None = None
) -> float:
    """Of a linear model of the last `lags` observations, fitted by least squares to every step of the training part.

    :param actions: with the actions after each of these observations
    :param scale: what errors are divided by, (n,); None leaves them as they are
    """
    weights = fit_linear(train, lags, actions)
    inputs, targets = lagged(test, lags, actions)
    return float(np.mean(((inputs @ weights - targets) / (1.0 if scale is None else scale)) ** 2))


def fit_linear(train: Rollouts, lags: int, actions: bool = False) -> Array:
    """Weights (lags (n + m) + 1, n), the last row the constant; m is 0 without the actions."""
    inputs, targets = lagged(train, lags, actions)
    return np.asarray(np.linalg.lstsq(inputs, targets, rcond=None)[0], np.float64)


def lagged(rollouts: Rollouts, lags: int, actions: bool = False) -> tuple[Array, Array]:
    """Inputs (S, lags (n + m) + 1), the oldest observation first and a one last, and targets (S, n): every step that
    has `lags` observations before it."""
    if lags < 1:
        raise ValueError(f"a linear model needs at least one lag, got {lags}")
    inputs, targets = [], []
    for rollout in rollouts:
        seen = np.asarray(rollout.observations, np.float64)
        if len(seen) <= lags:
            raise ValueError(f"{rollout.name} has {len(seen)} observations: too few for {lags} lags")
        read = seen[:-1]
        if actions:
            if rollout.actions is None:
                raise ValueError(f"{rollout.name} has no actions")
            read = np.hstack([read, np.asarray(rollout.actions, np.float64).reshape(rollout.steps, -1)])
        rows = len(seen) - lags
        inputs.append(np.hstack([*(read[k : k + rows] for k in range(lags)), np.ones((rows, 1))]))
        targets.append(seen[lags:])
    return np.concatenate(inputs), np.concatenate(targets)
