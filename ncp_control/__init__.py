"""Small, sparse, bounded recurrent controllers: neural circuit policies and liquid time-constant networks.

Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ncp_control._version import __version__
from ncp_control.base.imports import KERNELS, MovedModules, names_of
from ncp_control.neurons.catalogue import NEURONS

if TYPE_CHECKING:
    from ncp_control.checkpoint import CheckpointError, save
    from ncp_control.loading import load
    from ncp_control.ncps_reader import from_ncps
    from ncp_control.neurons import CTGRU as CTGRU
    from ncp_control.neurons import CTRNN as CTRNN
    from ncp_control.neurons import GRU as GRU
    from ncp_control.neurons import LSTM as LSTM
    from ncp_control.neurons import LTC as LTC
    from ncp_control.neurons import Cell, make_cell
    from ncp_control.neurons import CfC as CfC
    from ncp_control.neurons import DualLTC as DualLTC
    from ncp_control.neurons import MixedMemory as MixedMemory
    from ncp_control.neurons import NeuralLTC as NeuralLTC
    from ncp_control.neurons import NeuralODE as NeuralODE
    from ncp_control.ops import explain_backends, scan
    from ncp_control.rnn import RNN
    from ncp_control.wiring import (
        NCP,
        AutoNCP,
        FullyConnected,
        GapJunctions,
        Random,
        Wiring,
        WiringError,
        tap_withdrawal,
    )

KERNELS.update({kind: row.room for row in NEURONS for kind in row.kernels})

_CELLS = [row.name for row in NEURONS if row.public]
_HOME = {
    "ncp_control.neurons": ("Cell", "make_cell", *_CELLS),
    "ncp_control.checkpoint": ("CheckpointError", "save"),
    "ncp_control.loading": ("load",),
    "ncp_control.ncps_reader": ("from_ncps",),
    "ncp_control.ops": ("explain_backends", "scan"),
    "ncp_control.rnn": ("RNN",),
    "ncp_control.wiring": (
        "NCP", "AutoNCP", "FullyConnected", "GapJunctions", "Random", "Wiring", "WiringError", "tap_withdrawal",
    ),
}  # fmt: skip

__all__ = [
    "NCP",
    "RNN",
    "AutoNCP",
    "Cell",
    "CheckpointError",
    "FullyConnected",
    "GapJunctions",
    "Random",
    "Wiring",
    "WiringError",
    "__version__",
    "explain_backends",
    "from_ncps",
    "load",
    "make_cell",
    "save",
    "scan",
    "tap_withdrawal",
    *_CELLS,
]

# First, because Python itself would find `cells.base` in the folder that `cells` is now.
sys.meta_path.insert(0, MovedModules())
__getattr__, __dir__ = names_of(__name__, _HOME)
