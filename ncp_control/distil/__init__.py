"""Distilling: a small circuit learns what another policy knows.

Names are imported when they are first used, so that the settings of a distillation need no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.distil.distilling import Distilled, distil
    from ncp_control.distil.pruning import Pruned
    from ncp_control.distil.recorded import Recorded
    from ncp_control.distil.settings import DistilSettings, PruneSettings
    from ncp_control.distil.teachers import load_teacher

_HOME = {
    "ncp_control.distil.distilling": ("Distilled", "distil"),
    "ncp_control.distil.pruning": ("Pruned",),
    "ncp_control.distil.recorded": ("Recorded",),
    "ncp_control.distil.settings": ("DistilSettings", "PruneSettings"),
    "ncp_control.distil.teachers": ("load_teacher",),
}

__all__ = ["DistilSettings", "Distilled", "PruneSettings", "Pruned", "Recorded", "distil", "load_teacher"]

__getattr__, __dir__ = names_of(__name__, _HOME)
