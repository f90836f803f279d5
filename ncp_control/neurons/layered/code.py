"""Cells that update layer by layer as C, with a row of weights for each synapse: one for every linear map."""

from __future__ import annotations

from ncp_control.neurons.code import array, edge_arrays, filled, index_array, values_of
from ncp_control.neurons.layered.neuron import LayeredCell

ABOUT = """\
/* Synapse k leads from synapse_source[k] into the neuron j with synapse_start[j] <= k < synapse_start[j + 1]. Its row
   has a weight for each of the @MAPS@ maps; sensory synapses likewise. */
"""
# Neurons of a layer read those of earlier layers as they are after this step, and all others as they were before it.
LAYERS = """\
static void advance(const controller_real *x, controller_real *h, controller_real elapsed) {
    controller_real next[@WIDEST@];
    for (int layer = 0; layer < @LAYERS@; layer++) {
        const int first = layer_start[layer], end = layer_start[layer + 1];
        for (int j = first; j < end; j++) {
            controller_real map[@MAPS@];
            for (int m = 0; m < @MAPS@; m++) map[m] = bias[j][m];
            for (int k = sensory_start[j]; k < sensory_start[j + 1]; k++) {
                for (int m = 0; m < @MAPS@; m++) map[m] += sensory[k][m] * x[sensory_source[k]];
            }
@SYNAPSES@            next[j - first] = combined(map, elapsed@NEURON@);
        }
        for (int j = first; j < end; j++) h[j] = next[j - first];
    }
}
"""
SYNAPSES = """\
            for (int k = synapse_start[j]; k < synapse_start[j + 1]; k++) {
                for (int m = 0; m < @MAPS@; m++) map[m] += synapse[k][m] * h[synapse_source[k]];
            }
"""


def layer_arrays(cell: LayeredCell) -> list[str]:
    """Returns the layers, the synapses and their weights as arrays; none of synapses among neurons without any."""
    starts = [part.start for part in cell.parts] + [cell.units]
    arrays = [
        filled(ABOUT, maps=cell.maps),
        edge_arrays("sensory", cell.sensory_source, cell.sensory_target, cell.units),
        array("sensory", values_of(cell.sensory_weight).T),
    ]
    if len(cell.source):
        arrays += [
            edge_arrays("synapse", cell.source, cell.target, cell.units),
            array("synapse", values_of(cell.weight).T),
        ]
    return [*arrays, index_array("layer_start", starts)]


def layer_loop(cell: LayeredCell, neuron: str) -> str:
    """Returns the function `advance`. The cell defines `bias`, and `combined`, which makes a new state of its maps.

    :param cell: the cell
    :param neuron: further arguments of `combined` after the maps and the elapsed time, for neuron j
    """
    return filled(
        LAYERS,
        synapses=SYNAPSES if len(cell.source) else "",
        maps=cell.maps,
        layers=len(cell.parts),
        widest=max(part.stop - part.start for part in cell.parts),
        neuron=neuron,
    )
