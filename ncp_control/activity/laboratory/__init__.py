"""Laboratories: web pages in which circuits run their body live, for experiments by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.activity.laboratory.exhibits import Exhibit
    from ncp_control.activity.laboratory.simulator import SimulatorBuild
    from ncp_control.activity.laboratory.write import write_laboratory

_HOME = {
    "ncp_control.activity.laboratory.exhibits": ("Exhibit",),
    "ncp_control.activity.laboratory.simulator": ("SimulatorBuild",),
    "ncp_control.activity.laboratory.write": ("write_laboratory",),
}

__all__ = ["Exhibit", "SimulatorBuild", "write_laboratory"]

__getattr__, __dir__ = names_of(__name__, _HOME)
