"""What cells share of their initialisation: names, time constants, fan-in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ncp_control.wiring import Wiring

Range = tuple[float, float]


def spread(limits: Range, units: int) -> Tensor:
    """Time constants evenly spaced in the logarithm from the shortest to the longest, in random order, (units,)."""
    shortest, longest = limits
    steps = torch.linspace(0, 1, units) if units > 1 else torch.full((1,), 0.5)
    return (shortest * (longest / shortest) ** steps)[torch.randperm(units)]


def check_time_constants(limits: Range | None) -> Range | None:
    """Refuses a range of time constants that is not 0 < shortest <= longest."""
    if limits is None:
        return None
    shortest, longest = limits
    if not 0 < shortest <= longest < float("inf"):
        raise ValueError(f"time_constants must be (shortest, longest) with 0 < shortest <= longest, got {limits!r}")
    return float(shortest), float(longest)


def check_init(init: str, known: dict[str, Any]) -> None:
    """Refuses an initialisation that has no such name."""
    if init not in known:
        raise ValueError(f"unknown init {init!r}: choose one of {', '.join(known)}")


def fan_in(wiring: Wiring) -> Tensor:
    """Synapses into every neuron, sensory ones too, at least one, (N,)."""
    return torch.tensor(wiring.fan_in, dtype=torch.get_default_dtype()).clamp(min=1)
