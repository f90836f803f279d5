"""Recordings of everything that a circuit does, and views of them. A view does not load torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.activity.live import LivePage
    from ncp_control.activity.recording.activity import Activity, ActivityError
    from ncp_control.activity.recording.agents import record
    from ncp_control.activity.recording.models import record_model
    from ncp_control.activity.recording.networks import record_network

_HOME = {
    "ncp_control.activity.recording.activity": ("Activity", "ActivityError"),
    "ncp_control.activity.live": ("LivePage",),
    "ncp_control.activity.recording.agents": ("record",),
    "ncp_control.activity.recording.models": ("record_model",),
    "ncp_control.activity.recording.networks": ("record_network",),
}

__all__ = ["Activity", "ActivityError", "LivePage", "record", "record_model", "record_network"]

__getattr__, __dir__ = names_of(__name__, _HOME)
