"""A LaggedMLP as data for a laboratory."""

from __future__ import annotations

from typing import Any

from ncp_control.neurons.lagged.neuron import LaggedMLP
from ncp_control.neurons.page import layer_data


def lagged_data(cell: LaggedMLP) -> dict[str, Any]:
    """Returns the layer of a LaggedMLP."""
    return {"lags": cell.lags, "hidden": layer_data(cell.hidden)}
