"""Whose line a warning is about: the caller's, and not one of this package or of a library that it stands on."""

from __future__ import annotations

import sys
from types import FrameType

OURS = ("ncp_control", "torch", "stable_baselines3", "sb3_contrib")


def level_outside() -> int:
    """The `stacklevel` with which the function that calls this one warns of its caller's line outside of `OURS`."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    return level
