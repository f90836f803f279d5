"""Cells: each is one kind of neuron, with its parameters, its step, its currents and its bounds.

Names are imported when they are first used, so that a help page needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of
from ncp_control.cells.catalogue import NEURONS

if TYPE_CHECKING:
    from ncp_control.cells.base import Cell, Guarantee
    from ncp_control.cells.cfc import CfC as CfC
    from ncp_control.cells.ct_gru import CTGRU as CTGRU
    from ncp_control.cells.ctrnn import CTRNN as CTRNN
    from ncp_control.cells.currents import Currents
    from ncp_control.cells.cut import without_synapses
    from ncp_control.cells.dual_ltc import DualLTC as DualLTC
    from ncp_control.cells.gru import GRU as GRU
    from ncp_control.cells.held import Held
    from ncp_control.cells.lagged import LaggedMLP as LaggedMLP
    from ncp_control.cells.lstm import LSTM as LSTM
    from ncp_control.cells.ltc import LTC as LTC
    from ncp_control.cells.mixed_memory import MixedMemory as MixedMemory
    from ncp_control.cells.named import CELLS, cell_config, cell_from_config, make_cell, named_cell
    from ncp_control.cells.neural_ltc import NeuralLTC as NeuralLTC
    from ncp_control.cells.neural_ode import NeuralODE as NeuralODE
    from ncp_control.cells.ode import ODECell

_HOME = {
    "ncp_control.cells.base": ("Cell", "Guarantee"),
    "ncp_control.cells.currents": ("Currents",),
    "ncp_control.cells.cut": ("without_synapses",),
    "ncp_control.cells.held": ("Held",),
    "ncp_control.cells.named": ("CELLS", "cell_config", "cell_from_config", "make_cell", "named_cell"),
    "ncp_control.cells.ode": ("ODECell",),
    **{row.home: (row.name,) for row in NEURONS},
}

__all__ = [
    "CELLS",
    "Cell",
    "Currents",
    "Guarantee",
    "Held",
    "ODECell",
    "cell_config",
    "cell_from_config",
    "make_cell",
    "named_cell",
    "without_synapses",
    *(row.name for row in NEURONS),
]

__getattr__, __dir__ = names_of(__name__, _HOME)
