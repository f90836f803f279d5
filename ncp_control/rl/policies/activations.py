"""The activations between an agent's layers, as curves whose ranges and derivatives are known."""

from __future__ import annotations

from torch import nn

from ncp_control.base.curves import RELU, SILU, TANH, Curve, clipped, elu


def curve_of(module: nn.Module) -> Curve:
    """Returns an activation; refuses other layers."""
    kind = type(module)
    if kind is nn.Tanh:
        return TANH
    if kind is nn.ReLU:
        return RELU
    if kind is nn.SiLU:
        return SILU
    if isinstance(module, nn.Hardtanh) and kind is nn.Hardtanh:
        return clipped(module.min_val, module.max_val)
    if isinstance(module, nn.ELU) and kind is nn.ELU and module.alpha >= 0:
        return elu(module.alpha)
    raise ValueError(
        "an audit or a proof knows the layers Linear, Tanh, ReLU, ELU, SiLU, Hardtanh and BatchRenorm1d, and this "
        f"agent has {module}"
    )
