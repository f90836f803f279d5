"""Parameters that are positive by construction: a free number goes through a softplus."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-8


def positive(raw: Tensor) -> Tensor:
    """Returns `log(1 + exp(raw)) + 1e-8`, which is above zero even where a softplus alone would round to zero."""
    return softplus(raw) + SMALLEST


def raw_of(value: Tensor) -> Tensor:
    """Returns the `raw` for which `positive(raw)` is `value`; values below 2e-8 count as 2e-8."""
    above = (value - SMALLEST).clamp(min=SMALLEST)
    return above + torch.log(-torch.expm1(-above))
