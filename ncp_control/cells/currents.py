"""What flows through the synapses of a cell."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ncp_control.wiring import Wiring


class Currents(NamedTuple):
    """What flows through every synapse in each of T steps; above zero it pushes the target up.

    :param sensory: through the sensory synapses, (T, S), in the wiring's order
    :param recurrent: through the synapses between neurons, (T, E), in the wiring's order
    :param gap: through the gap junctions, into the first neuron of each, (T, G)
    """

    sensory: Tensor
    recurrent: Tensor
    gap: Tensor


def without_gaps(wiring: Wiring, sensory: Tensor, recurrent: Tensor) -> Currents:
    """Returns the currents of a cell that ignores the wiring's gap junctions: nothing flows through those."""
    return Currents(sensory, recurrent, sensory.new_zeros(len(sensory), len(wiring.gap_junctions)))
