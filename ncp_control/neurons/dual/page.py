"""A DualLTC as data for a laboratory."""

from __future__ import annotations

from typing import Any

import torch

from ncp_control.base.pages import packed
from ncp_control.neurons.dual.neuron import DualLTC
from ncp_control.neurons.layered.page import layered_data
from ncp_control.neurons.page import exact


def dual_data(cell: DualLTC) -> dict[str, Any]:
    """Returns the maps of a DualLTC, its brakes, and the ends of the logarithms of its time constants."""
    raw = cell.brake_raw
    return {
        **layered_data(cell),
        "brake": None if raw is None else packed(cell.strongest_brake * torch.sigmoid(exact(raw))),
        "logTau": packed(cell.index_arrays["log_tau"]),
    }
