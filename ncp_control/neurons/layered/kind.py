"""What the programs of cells have in common whose layers update in their order."""

from __future__ import annotations

from ncp_control.ops.kinds import OnGPU

ON_GPU = OnGPU(("new_by_target", "new_by_source"), slots=1024, registers=255)
