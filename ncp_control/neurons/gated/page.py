"""LSTM and GRU as data for a laboratory."""

from __future__ import annotations

from typing import Any

from ncp_control.neurons.gated.neuron import GatedCell
from ncp_control.neurons.page import numbers


def gated_data(cell: GatedCell) -> dict[str, Any]:
    """Returns the matrices and the biases of an LSTM or a GRU."""
    return {name: numbers(getattr(cell, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
