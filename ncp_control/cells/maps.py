"""Per-feature scales and shifts of inputs and motor outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

MAPS = ("affine", "linear", "none")


def make_map(name: str, kind: str, size: int) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """Scale (ones) and shift (zeros) of an input or output map; None where the kind has none."""
    if kind not in MAPS:
        raise ValueError(f"unknown {name} {kind!r}: choose one of {', '.join(MAPS)}")
    scale = nn.Parameter(torch.ones(size)) if kind != "none" else None
    shift = nn.Parameter(torch.zeros(size)) if kind == "affine" else None
    return scale, shift


def apply_map(values: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """`values * scale + shift`, each where there is one."""
    if scale is None:
        return values
    return values * scale if shift is None else torch.addcmul(shift, values, scale)
