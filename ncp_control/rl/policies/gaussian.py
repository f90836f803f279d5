"""Gaussian actions with independent entries, without Stable-Baselines3's objects, which take longer than a circuit.

For the mean m and the standard deviation s = exp(log_std), the numbers are those of its distribution, up to rounding::

    a = m + s e,    log p(a) = sum of -(a - m)^2 / (2 s^2) - log s - log sqrt(2 pi)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG_SQRT_2_PI = math.log(math.sqrt(2 * math.pi))


def draw(mean: Tensor, std: Tensor) -> Tensor:
    """Returns random actions, (B, m).

    :param mean: (B, m)
    :param std: (m,)
    """
    return mean + torch.randn_like(mean) * std


def log_probabilities(actions: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Returns the logarithm of the density at each action, (..., B).

    :param actions: (..., B, m)
    :param mean: (..., B, m)
    :param std: (m,), or (..., 1, m)
    """
    each = (actions - mean).square() / (-2 * std.square()) - std.log() - LOG_SQRT_2_PI
    return each.sum(dim=-1)


def entropies(log_std: Tensor, rows: int) -> Tensor:
    """Returns the entropy of each row's actions, (B,)."""
    return (0.5 + LOG_SQRT_2_PI + log_std).sum().expand(rows)


def refuse(mean: Tensor, std: Tensor) -> None:
    """Refuses parameters that no Gaussian has, in torch's words, even where torch's own checks are switched off."""
    for name, values, is_right in (("loc", mean, mean.isfinite()), ("scale", std, std.isfinite() & (std > 0))):
        if not is_right.all():
            raise ValueError(
                f"expected parameter {name} of a Gaussian to satisfy the constraint of finite numbers: {values}"
            )
