"""A circuit with some of its synapses cut."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch

from ncp_control.cells.base import Cell
from ncp_control.cells.computed import check_plain


@torch.no_grad()
def without_synapses(
    cell: Cell, synapses: Iterable[int], sensory: Iterable[int] = (), gap_junctions: Iterable[int] = ()
) -> Cell:
    """Returns a copy of a cell in which some synapses carry nothing (in an LTC, its smallest conductance of 1e-8).

    This is the way to remove synapses. `torch.nn.utils.prune` sets a parameter to zero, and that is a weak synapse only
    where the parameter is a weight: in an LTC, a `w_raw` of zero is a conductance of softplus(0) = 0.69, and a `sigma`
    of zero a synapse that is half open whatever its source does.

    :param synapses: numbers of synapses between neurons, in the wiring's order
    :param sensory: numbers of sensory synapses
    :param gap_junctions: numbers of gap junctions; only an LTC has currents through them
    """
    check_plain(cell)
    found = copy.deepcopy(cell)
    found.cut_synapses(list(synapses), list(sensory), list(gap_junctions))
    return found
