"""Which cells are known."""

from __future__ import annotations

from typing import Any

from ncp_control.audit.cells.affine import KnownAffine
from ncp_control.audit.cells.cfc import KnownCfC
from ncp_control.audit.cells.dual import KnownDual
from ncp_control.audit.cells.gated import KnownGRU, KnownLSTM
from ncp_control.audit.cells.known import Elapsed, Known, Opaque
from ncp_control.audit.cells.lagged import KnownLaggedMLP
from ncp_control.audit.cells.ltc import KnownLTC
from ncp_control.cells import CTRNN, GRU, LSTM, LTC, Cell, CfC, DualLTC, LaggedMLP, NeuralLTC, NeuralODE
from ncp_control.cells.computed import written_class

KNOWN: dict[type, Any] = {
    LTC: KnownLTC,
    NeuralLTC: KnownAffine,
    CTRNN: KnownAffine,
    NeuralODE: KnownAffine,
    CfC: KnownCfC,
    DualLTC: KnownDual,
    LSTM: KnownLSTM,
    GRU: KnownGRU,
    LaggedMLP: KnownLaggedMLP,
}
SOLVERS = ("fused", "euler")


def known_of(cell: Cell, elapsed: Elapsed) -> Known:
    """Returns what is known about a cell; of those that are not known, no more than the bounds that they guarantee.

    Known are these very classes: a cell of one's own, a subclass among them, can step otherwise. Not known are the
    solvers "rk4" and "dopri5", and a CfC of the mode "pure" or with a backbone.

    :param cell: the cell
    :param elapsed: the times between two observations
    """
    cell.refresh()
    kind = KNOWN.get(written_class(cell))
    solves = getattr(cell, "solver", "fused") in SOLVERS
    plain = not isinstance(cell, CfC) or (cell.mode != "pure" and not cell.backbone_widths)
    found: Known = kind(cell, elapsed) if kind is not None and solves and plain else Opaque(cell, elapsed)
    return found
