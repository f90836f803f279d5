"""The circuit and its body as one system: what they settle to, and how small differences grow or shrink on the way."""

from ncp_control.loop.closed import ClosedLoop
from ncp_control.loop.cycles import Cycle, find_cycle
from ncp_control.loop.grid import Disturbed, disturbed, grid_figure
from ncp_control.loop.held import held_points
from ncp_control.loop.page import write_dynamics
from ncp_control.loop.report import Attractor, LoopReport, analyse

__all__ = [
    "Attractor",
    "ClosedLoop",
    "Cycle",
    "Disturbed",
    "LoopReport",
    "analyse",
    "disturbed",
    "find_cycle",
    "grid_figure",
    "held_points",
    "write_dynamics",
]
