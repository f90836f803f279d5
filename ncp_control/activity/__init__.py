"""Seeing a circuit think: recordings of all it does, and views of them. A view loads no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncp_control.activity.episode import Activity, ActivityError
    from ncp_control.activity.recording import record, record_model, record_network

_MODULE_OF = {
    "Activity": "ncp_control.activity.episode",
    "ActivityError": "ncp_control.activity.episode",
    "record": "ncp_control.activity.recording",
    "record_model": "ncp_control.activity.recording",
    "record_network": "ncp_control.activity.recording",
}

__all__ = ["Activity", "ActivityError", "record", "record_model", "record_network"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ncp_control.activity' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
