"""An LTC as data for a laboratory."""

from __future__ import annotations

from typing import Any

from ncp_control.base.pages import packed
from ncp_control.neurons.ltc.neuron import LTC
from ncp_control.neurons.page import exact, numbers, solver_data
from ncp_control.neurons.parameters import positive


def ltc_data(cell: LTC) -> dict[str, Any]:
    """Returns the conductances, thresholds and maps of an LTC."""
    computed = () if cell.kept_range is None else ("gleak", "cm")  # from other parameters
    raw = [name for name in ("gleak", "cm", "w", "sensory_w", "gap") if name not in computed]
    plain = ("vleak", "mu", "sigma", "E", "sensory_mu", "sensory_sigma", "sensory_E")
    maps = ("input_scale", "input_shift", "output_scale", "output_shift")
    return {
        **solver_data(cell),
        **{name: packed(positive(exact(getattr(cell, f"{name}_raw")))) for name in raw},
        **{name: numbers(getattr(cell, name)) for name in (*computed, *plain, *maps)},
    }
