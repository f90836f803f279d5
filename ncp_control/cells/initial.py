"""What cells have in common when they draw their first parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ncp_control.wiring import Wiring

Range = tuple[float, float]
FARTHEST = 1e30  # no time constant is longer, or shorter than its inverse
ROOM = 1e-5  # the share of a bounded range that is left for rounding in float32, at both ends


def spread(limits: Range, units: int) -> Tensor:
    """Returns time constants from the shortest to the longest, evenly spaced in the logarithm, in random order.

    :param limits: the shortest and the longest
    :param units: how many
    :return: (units,)
    """
    shortest, longest = limits
    steps = torch.linspace(0, 1, units) if units > 1 else torch.full((1,), 0.5)
    return (shortest * (longest / shortest) ** steps)[torch.randperm(units)]


def check_time_constants(limits: Range | None) -> Range | None:
    """Returns a range of time constants as floats and refuses one that is not 0 < shortest <= longest.

    It also refuses numbers so far out that float32 cannot hold their inverses, or a short time over them.
    """
    if limits is None:
        return None
    shortest, longest = limits
    if not 0 < shortest <= longest < float("inf"):
        raise ValueError(f"time_constants must be (shortest, longest) with 0 < shortest <= longest, got {limits!r}")
    if shortest < 1 / FARTHEST or longest > FARTHEST:
        raise ValueError(
            f"time_constants must lie between {1 / FARTHEST:g} and {FARTHEST:g}, got {limits!r}: give them and the "
            "elapsed times in another unit of time"
        )
    return float(shortest), float(longest)


def with_room(limits: Range) -> Range:
    """Returns what a bounded range leaves when rounding has its room at both ends."""
    return limits[0] * (1 + ROOM), limits[1] / (1 + ROOM)


def check_init(init: str, known: dict[str, Any]) -> None:
    """Refuses the name of an initialisation that does not exist."""
    if init not in known:
        raise ValueError(f"unknown init {init!r}: choose one of {', '.join(known)}")


def leads_back(wiring: Wiring) -> Tensor:
    """Returns which synapses stay within a layer or lead to an earlier one, (E,) bool."""
    sizes = torch.tensor([size for _, size in wiring.layer_sizes])
    layer = torch.arange(len(sizes)).repeat_interleave(sizes).numpy()
    return torch.tensor(layer[wiring.synapses.source] >= layer[wiring.synapses.target])


def fan_in(wiring: Wiring) -> Tensor:
    """Returns the number of synapses into every neuron, sensory ones included, but at least one, (N,)."""
    return torch.tensor(wiring.fan_in, dtype=torch.get_default_dtype()).clamp(min=1)
