"""The same work on more processors: sweeps, and jobs on a cluster of Ray."""

from __future__ import annotations

from ncp_control.scale.cluster import place_of
from ncp_control.scale.sweep import Sweep, Swept, sweep

__all__ = ["Sweep", "Swept", "place_of", "sweep"]
