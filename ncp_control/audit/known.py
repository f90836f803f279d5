"""Which cells are known."""

from __future__ import annotations

from ncp_control.neurons import Cell, CfC
from ncp_control.neurons.catalogue import row_of
from ncp_control.neurons.parameters import written_class
from ncp_control.neurons.ranges import Elapsed, Known, Opaque

SOLVERS = ("fused", "euler")


def known_of(cell: Cell, elapsed: Elapsed) -> Known:
    """Returns what is known about a cell; of those that are not known, no more than the bounds that they guarantee.

    Known are these very classes: a cell of one's own, a subclass among them, can step otherwise. Not known are the
    solvers "rk4" and "dopri5", and a CfC of the mode "pure" or with a backbone.

    :param cell: the cell
    :param elapsed: the times between two observations
    """
    cell.refresh()
    row = row_of(written_class(cell))
    solves = getattr(cell, "solver", "fused") in SOLVERS
    plain = not isinstance(cell, CfC) or (cell.mode != "pure" and not cell.backbone_widths)
    if row.ranges is None or not solves or not plain:
        return Opaque(cell, elapsed)
    found: Known = row.part("ranges")(cell, elapsed)
    return found
