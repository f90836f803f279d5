"""Cells: parameters, constraints and bounds of one kind of neuron each."""

from ncp_control.cells.base import Cell, Guarantee
from ncp_control.cells.baselines import CTRNN, GRU, LSTM, NeuralODE
from ncp_control.cells.cfc import CfC
from ncp_control.cells.ct_gru import CTGRU
from ncp_control.cells.held import Held, without_synapses
from ncp_control.cells.ltc import LTC
from ncp_control.cells.mixed_memory import MixedMemory
from ncp_control.cells.named import CELLS, cell_config, cell_from_config, make_cell, named_cell
from ncp_control.cells.neural_ltc import NeuralLTC
from ncp_control.cells.ode import ODECell

__all__ = [
    "CELLS",
    "CTGRU",
    "CTRNN",
    "GRU",
    "LSTM",
    "LTC",
    "Cell",
    "CfC",
    "Guarantee",
    "Held",
    "MixedMemory",
    "NeuralLTC",
    "NeuralODE",
    "ODECell",
    "cell_config",
    "cell_from_config",
    "make_cell",
    "named_cell",
    "without_synapses",
]
