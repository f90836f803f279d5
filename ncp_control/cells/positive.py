"""Parameters that are positive, or within limits, by construction: a free number goes through a function."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-8
EDGE = 0.05  # how near `free_of` comes to a limit, as a share of the range: at the limit the gradient vanishes


def positive(raw: Tensor) -> Tensor:
    """Returns `log(1 + exp(raw)) + 1e-8`, which is above zero even where a softplus alone would round to zero."""
    return softplus(raw) + SMALLEST


def raw_of(value: Tensor) -> Tensor:
    """Returns the `raw` for which `positive(raw)` is `value`; values below 2e-8 count as 2e-8."""
    above = (value - SMALLEST).clamp(min=SMALLEST)
    return above + torch.log(-torch.expm1(-above))


def within(free: Tensor, limits: tuple[float, float] | tuple[Tensor, Tensor]) -> Tensor:
    """Returns `low^(1 - s) high^s` with `s = sigmoid(free)`, which lies between the limits, evenly in the logarithm.

    It is computed in float64: the power of a wide range makes the rounding of its exponent many times as large.
    """
    low, high = limits
    exact = free.double()
    return (low ** torch.sigmoid(-exact) * high ** torch.sigmoid(exact)).to(free.dtype)


def free_of(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Returns the `free` for which `within(free, limits)` is `value`; values near a limit, or outside, move inwards."""
    low, high = limits
    return torch.logit(torch.log(value / low) / math.log(high / low), eps=EDGE)
