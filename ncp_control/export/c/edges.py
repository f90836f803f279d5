"""Edge lists, sorted by target, as constant arrays of C."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.export.c.numbers import index_array
from ncp_control.neurons.program_form import first_of_target


def edge_arrays(name: str, source: Any, target: Any, units: int) -> str:
    """Returns the arrays NAME_start and NAME_source of synapses sorted by target.

    Synapse k leads from NAME_source[k] into the neuron j with `NAME_start[j] <= k < NAME_start[j + 1]`.

    :param name: what the synapses are called
    :param source: the source of every synapse, (E,), at least one
    :param target: its target, (E,)
    :param units: number of neurons N
    """
    starts = first_of_target(np.asarray(target), units)
    return index_array(f"{name}_start", starts) + index_array(f"{name}_source", source)
