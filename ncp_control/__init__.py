"""Small, sparse, bounded recurrent controllers: neural circuit policies and liquid time-constant networks.

Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ncp_control._version import __version__
from ncp_control.base.imports import MovedModules, names_of

if TYPE_CHECKING:
    from ncp_control.cells import (
        CTGRU,
        CTRNN,
        GRU,
        LSTM,
        LTC,
        Cell,
        CfC,
        DualLTC,
        MixedMemory,
        NeuralLTC,
        NeuralODE,
        make_cell,
    )
    from ncp_control.checkpoint import CheckpointError, save
    from ncp_control.loading import load
    from ncp_control.ncps_reader import from_ncps
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

_HOME = {
    "ncp_control.cells": (
        "CTGRU", "CTRNN", "GRU", "LSTM", "LTC", "Cell", "CfC", "DualLTC", "MixedMemory", "NeuralLTC", "NeuralODE",
        "make_cell",
    ),
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
    "CTGRU",
    "CTRNN",
    "GRU",
    "LSTM",
    "LTC",
    "NCP",
    "RNN",
    "AutoNCP",
    "Cell",
    "CfC",
    "CheckpointError",
    "DualLTC",
    "FullyConnected",
    "GapJunctions",
    "MixedMemory",
    "NeuralLTC",
    "NeuralODE",
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
]

sys.meta_path.append(MovedModules())
__getattr__, __dir__ = names_of(__name__, _HOME)
