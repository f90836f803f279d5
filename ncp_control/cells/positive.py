"""Positive by construction: a free parameter through a softplus, and the way back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-8


def positive(raw: Tensor) -> Tensor:
    """`log(1 + exp(raw))`, above zero for every finite `raw`."""
    return softplus(raw)


def raw_of(value: Tensor) -> Tensor:
    """The `raw` for which `positive(raw)` is `value`; values at or below zero are taken as 1e-8."""
    value = value.clamp(min=SMALLEST)
    return value + torch.log(-torch.expm1(-value))
