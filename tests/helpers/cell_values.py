"""Random inputs and states for cells, parameters set by their effective values, and checks of the states."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.neurons import Cell
from ncp_control.neurons.parameters import raw_of


def drawn(cell: Cell, batch: int = 3) -> tuple[Tensor, Tensor]:
    """Returns random inputs (B, I) and states (B, N) in the cell's float type."""
    inputs = torch.randn(batch, cell.inputs, dtype=cell.dtype)
    return inputs, torch.rand(batch, cell.state_size, dtype=cell.dtype) - 0.5


def exact(values: Any) -> Tensor:
    """Returns numbers in float64, so that they are not rounded to float32."""
    return torch.tensor(values, dtype=torch.float64)


def set_values(cell: nn.Module, **values: float | list[float]) -> None:
    """Sets parameters by their effective values, positive ones through their `*_raw`."""
    with torch.no_grad():
        for name, value in values.items():
            parameter = getattr(cell, f"{name}_raw", None)
            if parameter is not None:
                parameter.copy_(raw_of(exact(value)).expand_as(parameter))
            else:
                getattr(cell, name).copy_(exact(value).expand_as(getattr(cell, name)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def changed(cell: Cell, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> set[int]:
    """Returns the neurons whose next state differs between one pair of inputs and states and another."""
    same = cell.step(*before, 0.5) == cell.step(*after, 0.5)
    return set(torch.nonzero((~same).any(0)).flatten().tolist())


def close_to(bounds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns the bounds, widened by what rounding can add: 4 eps max(1, |bound|).

    A step has a dozen roundings of half an eps each, relative to numbers that are no larger than the bound. The next
    step pulls a state back that is outside, so that rounding does not add up.
    """
    low, high = bounds
    slack = 4 * torch.finfo(low.dtype).eps
    return low - slack * low.abs().clamp(1, 1e30), high + slack * high.abs().clamp(1, 1e30)


def assert_inside(values: Tensor, bounds: tuple[Tensor, Tensor]) -> None:
    low, high = close_to(bounds)
    assert not values.isnan().any()
    outside = torch.nonzero((values < low) | (values > high))
    if len(outside):
        where = tuple(outside[0].tolist())
        raise AssertionError(f"{values[where]} at {where} is outside [{bounds[0][where[-1]]}, {bounds[1][where[-1]]}]")
