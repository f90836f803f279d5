"""Scales and shifts of single features, for inputs and motor outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

MAPS = ("affine", "linear", "none")


def register_map(cell: nn.Module, name: str, kind: str, size: int) -> None:
    """Gives `cell` the parameters `{name}_scale`, ones, and `{name}_shift`, zeros, or None if `kind` has no such."""
    if kind not in MAPS:
        raise ValueError(f"unknown {name}_map {kind!r}: choose one of {', '.join(MAPS)}")
    cell.register_parameter(f"{name}_scale", nn.Parameter(torch.ones(size)) if kind != "none" else None)
    cell.register_parameter(f"{name}_shift", nn.Parameter(torch.zeros(size)) if kind == "affine" else None)


def apply_map(values: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """Returns `values * scale + shift`, without the parts that are None."""
    if scale is None:
        return values
    return values * scale if shift is None else torch.addcmul(shift, values, scale)
