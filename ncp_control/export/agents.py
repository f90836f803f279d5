"""What every kind of export takes: an agent from its file, or a controller that was made of one."""

from __future__ import annotations

from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor


def as_controller(agent: LoadedPolicy | Controller, monitor: Monitor | None) -> Controller:
    """Returns the agent as a `Controller`, made of torch's own operations if it has to be made."""
    if not isinstance(agent, Controller):
        return Controller(agent, "reference", monitor)
    if monitor is not None:
        raise ValueError("a Controller brings its monitor: give it as Controller(agent, monitor=...)")
    return agent
