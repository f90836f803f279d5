"""A MixedMemory as data for a laboratory, with the cell in it."""

from __future__ import annotations

from typing import Any

from ncp_control.neurons.mixed.neuron import MixedMemory
from ncp_control.neurons.page import cell_data, numbers


def mixed_data(cell: MixedMemory) -> dict[str, Any]:
    """Returns the LSTM of a MixedMemory, and the cell behind it."""
    names = ("input_weight", "input_bias", "recurrent_weight")
    return {"inner": cell_data(cell.cell), **{name: numbers(getattr(cell, name)) for name in names}}
