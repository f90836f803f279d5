"""Seeing a circuit think: recordings of all it does, and views of them."""

from ncp_control.activity.episode import Activity, ActivityError
from ncp_control.activity.record import record, record_model, record_network

__all__ = ["Activity", "ActivityError", "record", "record_model", "record_network"]
