"""Positive by construction: a free parameter through a softplus, and the way back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-8


def positive(raw: Tensor) -> Tensor:
    """`log(1 + exp(raw)) + 1e-8`: above zero wherever training drives `raw`, where a softplus alone rounds to zero."""
    return softplus(raw) + SMALLEST


def raw_of(value: Tensor) -> Tensor:
    """The `raw` for which `positive(raw)` is `value`; values below 2e-8 are taken as that."""
    above = (value - SMALLEST).clamp(min=SMALLEST)
    return above + torch.log(-torch.expm1(-above))
