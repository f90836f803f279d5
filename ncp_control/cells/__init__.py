"""Cells: each is one kind of neuron, with its parameters, its step, its currents and its bounds."""

from ncp_control.cells.base import Cell, Guarantee
from ncp_control.cells.cfc import CfC
from ncp_control.cells.ct_gru import CTGRU
from ncp_control.cells.ctrnn import CTRNN
from ncp_control.cells.currents import Currents
from ncp_control.cells.cut import without_synapses
from ncp_control.cells.dual_ltc import DualLTC
from ncp_control.cells.gru import GRU
from ncp_control.cells.held import Held
from ncp_control.cells.lagged import LaggedMLP
from ncp_control.cells.lstm import LSTM
from ncp_control.cells.ltc import LTC
from ncp_control.cells.mixed_memory import MixedMemory
from ncp_control.cells.named import CELLS, cell_config, cell_from_config, make_cell, named_cell
from ncp_control.cells.neural_ltc import NeuralLTC
from ncp_control.cells.neural_ode import NeuralODE
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
    "Currents",
    "DualLTC",
    "Guarantee",
    "Held",
    "LaggedMLP",
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
