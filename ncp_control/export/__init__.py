"""An agent as code for robots: C99, ONNX, a bundle of LEAPP, and torch.export. Names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.export.c.write import export_c
    from ncp_control.export.leapp_bundle import export_leapp
    from ncp_control.export.onnx_file import export_onnx
    from ncp_control.export.program_file import export_program

_HOME = {
    "ncp_control.export.c.write": ("export_c",),
    "ncp_control.export.leapp_bundle": ("export_leapp",),
    "ncp_control.export.onnx_file": ("export_onnx",),
    "ncp_control.export.program_file": ("export_program",),
}

__all__ = ["export_c", "export_leapp", "export_onnx", "export_program"]

__getattr__, __dir__ = names_of(__name__, _HOME)
