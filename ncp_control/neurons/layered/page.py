"""The maps of cells that update layer by layer as data for a laboratory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.base.pages import packed
from ncp_control.neurons.layered.neuron import LayeredCell
from ncp_control.neurons.page import exact


def layered_data(cell: LayeredCell) -> dict[str, Any]:
    """Returns the maps of a cell that updates layer by layer: a row of H weights for each synapse or neuron."""
    return {
        "maps": cell.maps,
        "bias": packed(exact(cell.bias).T),
        "layers": packed([part.start for part in cell.parts] + [cell.units]),
        "places": packed(np.asarray(cell.places(), dtype=np.int64)),
        # the synapses that the maps have, sorted by target
        "source": packed(cell.index_arrays["source"]),
        "start": packed(cell.index_arrays["start"]),
        "weight": packed(exact(cell.weight).T),
        "sensory_weight": packed(exact(cell.sensory_weight).T),
    }
