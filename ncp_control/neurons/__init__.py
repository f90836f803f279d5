"""Neurons: a room for each kind, with its equation and its step, and what is proved about its ranges.

Names are imported when they are first used, so that a help page needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of
from ncp_control.neurons.catalogue import NEURONS

if TYPE_CHECKING:
    from ncp_control.neurons.affine.ctrnn import CTRNN as CTRNN
    from ncp_control.neurons.affine.neural_ltc import NeuralLTC as NeuralLTC
    from ncp_control.neurons.affine.neural_ode import NeuralODE as NeuralODE
    from ncp_control.neurons.base import Cell, Currents, Guarantee
    from ncp_control.neurons.cfc.neuron import CfC as CfC
    from ncp_control.neurons.ct_gru.neuron import CTGRU as CTGRU
    from ncp_control.neurons.dual.neuron import DualLTC as DualLTC
    from ncp_control.neurons.gated.neuron import GRU as GRU
    from ncp_control.neurons.gated.neuron import LSTM as LSTM
    from ncp_control.neurons.held import Held, without_synapses
    from ncp_control.neurons.lagged.neuron import LaggedMLP as LaggedMLP
    from ncp_control.neurons.ltc.neuron import LTC as LTC
    from ncp_control.neurons.mixed.neuron import MixedMemory as MixedMemory
    from ncp_control.neurons.named import CELLS, cell_config, cell_from_config, make_cell, named_cell
    from ncp_control.neurons.ode import ODECell

_HOME = {
    "ncp_control.neurons.base": ("Cell", "Currents", "Guarantee"),
    "ncp_control.neurons.held": ("Held", "without_synapses"),
    "ncp_control.neurons.named": ("CELLS", "cell_config", "cell_from_config", "make_cell", "named_cell"),
    "ncp_control.neurons.ode": ("ODECell",),
    **{home: [row.name for row in NEURONS if row.home == home] for home in {row.home for row in NEURONS}},
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
