"""What the layers behind a circuit return for an interval, and their derivatives over it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

from ncp_control.base.curves import Curve, curve_of
from ncp_control.base.intervals import Interval, add, affine, multiply, outward, point, subtract
from ncp_control.base.slopes import matrix_times, rows_times, times
from ncp_control.neurons.ranges import numbers
from ncp_control.rl.policies.numpy_actor import flattened

UNCHANGED = (nn.Identity, nn.Flatten)  # of a vector


def through(modules: Iterable[nn.Module], values: Interval) -> Interval:
    """Returns the range of what layers return, (O,), for what they read, (F,).

    :param modules: the layers in their order, which may contain `nn.Sequential`
    :param values: the range of what the first layer reads, (F,)
    """
    for module in flattened(modules):
        values = _values(module, values)
    return values


def slopes_through(modules: Iterable[nn.Module], values: Interval) -> Interval:
    """Returns the derivatives of what layers return by what they read, (O, F), over a range (F,)."""
    slopes = point(np.eye(len(values.low)))
    for module in flattened(modules):
        if type(module) is nn.Linear:
            slopes = matrix_times(numbers(module.weight), slopes)
        elif type(module) is BatchRenorm1d:
            slopes = times(point(_scale(module)[:, None]), slopes)
        elif type(module) not in UNCHANGED:
            slopes = rows_times(_curve(module).slopes(values), slopes)
        values = _values(module, values)
    return slopes


def _values(module: nn.Module, values: Interval) -> Interval:
    """Returns the range of what one layer returns."""
    if type(module) is nn.Linear:
        return affine(values, numbers(module.weight), 0.0 if module.bias is None else numbers(module.bias))
    if type(module) is BatchRenorm1d:
        return _normalized(module, values)
    return values if type(module) in UNCHANGED else _curve(module).values(values)


def _curve(module: nn.Module) -> Curve:
    """Returns an activation; refuses other layers."""
    curve = curve_of(module)
    if curve is None:
        raise ValueError(
            f"an audit knows the layers Linear, Tanh, ReLU, ELU, SiLU, Hardtanh and BatchRenorm1d, and this agent has "
            f"{module}"
        )
    return curve


def _scale(layer: Any) -> Any:
    """Returns the factor of a BatchRenorm1d in evaluation, (F,)."""
    scale = 1 / np.sqrt(numbers(layer.ra_var) + layer.eps)
    return scale * numbers(layer.scale) if layer.affine else scale


def _normalized(layer: Any, values: Interval) -> Interval:
    """Returns what a BatchRenorm1d in evaluation returns."""
    shifted = subtract(values, point(numbers(layer.ra_mean)))
    scaled = multiply(shifted, point(_scale(layer)))
    widened = outward(*scaled, 4)  # the layer rounds a sum, a root, a quotient and a product on its way
    return add(widened, point(numbers(layer.bias))) if layer.affine else widened
