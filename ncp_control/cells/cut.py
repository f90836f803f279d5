"""A circuit with some of its synapses cut."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch

from ncp_control.cells.base import Cell


@torch.no_grad()
def without_synapses(
    cell: Cell, synapses: Iterable[int], sensory: Iterable[int] = (), gap_junctions: Iterable[int] = ()
) -> Cell:
    """Returns a copy of a cell in which some synapses carry nothing (in an LTC, its smallest conductance of 1e-8).

    :param synapses: numbers of synapses between neurons, in the wiring's order
    :param sensory: numbers of sensory synapses
    :param gap_junctions: numbers of gap junctions; only an LTC has currents through them
    """
    found = copy.deepcopy(cell)
    found.cut_synapses(list(synapses), list(sensory), list(gap_junctions))
    return found
