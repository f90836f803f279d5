"""A CfC as data for a laboratory."""

from __future__ import annotations

from typing import Any

from ncp_control.base.pages import packed
from ncp_control.neurons.cfc.neuron import CfC
from ncp_control.neurons.layered.page import layered_data
from ncp_control.neurons.page import exact, layer_data, numbers


def cfc_data(cell: CfC) -> dict[str, Any]:
    """Returns the maps of a CfC, or the layers of its backbone, and its mode."""
    data = {
        "mode": cell.mode,
        "w_tau": None if cell.w_tau is None else packed(exact(cell.w_tau).abs()),
        "A": numbers(cell.A),
    }
    if not cell.backbone_widths:
        return {**data, **layered_data(cell)}
    layers = [layer_data(layer) for layer in cell.backbone.children()]
    head = exact(cell.get_parameter("head")).view(cell.maps, cell.units, -1).transpose(0, 1)
    return {
        **data, "maps": cell.maps, "bias": packed(exact(cell.bias).T), "backbone": layers, "head": packed(head),
    }  # fmt: skip
