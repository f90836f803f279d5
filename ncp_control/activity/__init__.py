"""Seeing a circuit think: recordings of all it does, and views of them. A view loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.support.lazy import names_of

if TYPE_CHECKING:
    from ncp_control.activity.live import LivePage
    from ncp_control.activity.recording.activity import Activity, ActivityError
    from ncp_control.activity.recording.record import record, record_model, record_network

_HOME = {
    "ncp_control.activity.recording.activity": ("Activity", "ActivityError"),
    "ncp_control.activity.live": ("LivePage",),
    "ncp_control.activity.recording.record": ("record", "record_model", "record_network"),
}

__all__ = ["Activity", "ActivityError", "LivePage", "record", "record_model", "record_network"]

__getattr__, __dir__ = names_of(__name__, _HOME)
