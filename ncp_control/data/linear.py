"""Predictions of the next observation without a network: the errors that a model of the dynamics has to beat.

Each error is the mean squared error of the next observation over all features. Each feature's error may be divided by
the feature's scale first.
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
    """Returns the error of predicting that the next observation equals the present one.

    :param scale: divides the error of each feature, (n,); None divides nothing
    """
    return _mean(test, lambda batch: batch.observations, scale)


def mean_error(train: Windows, test: Windows, scale: Array | None = None) -> float:
    """Returns the error of always predicting the mean of the training windows' targets."""
    totals = torch.stack([batch.targets.double().sum((0, 1)) for batch in train.loader(4096)])
    mean = totals.sum(0) / (len(train) * train.length)
    return _mean(test, lambda batch: mean, scale)


def _mean(windows: Windows, predict: Callable[[Batch], Tensor], scale: Array | None) -> float:
    """Returns the mean squared error of a prediction over all windows."""
    by = 1.0 if scale is None else torch.as_tensor(scale)
    total = sum(
        ((batch.targets - predict(batch)).double() / by).square().mean(2).sum() for batch in windows.loader(4096)
    )
    return float(total) / (len(windows) * windows.length)


def linear_error(
    train: Rollouts, test: Rollouts, lags: int = 1, actions: bool = False, scale: Array | None = None
) -> float:
    """Returns the error of a linear model, fitted by least squares to every step of the training rollouts.

    :param lags: the number of observations that the model reads
    :param actions: whether the model also reads the action after each of these observations
    :param scale: divides the error of each feature, (n,); None divides nothing
    """
    weights = fit_linear(train, lags, actions)
    inputs, targets = lagged(test, lags, actions)
    return float(np.mean(((inputs @ weights - targets) / (1.0 if scale is None else scale)) ** 2))


def fit_linear(train: Rollouts, lags: int, actions: bool = False) -> Array:
    """Fits the weights (lags (n + m) + 1, n), the last row of which is the constant. Without actions m is 0."""
    inputs, targets = lagged(train, lags, actions)
    return np.asarray(np.linalg.lstsq(inputs, targets, rcond=None)[0], np.float64)


def lagged(rollouts: Rollouts, lags: int, actions: bool = False) -> tuple[Array, Array]:
    """Returns the inputs and the targets of a linear model, one row for each of the S observations with enough others
    before it.

    :return: inputs (S, lags (n + m) + 1), the oldest observation first and the number 1 last; and targets (S, n)
    """
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
