"""Audits: what is proved about an agent for every sequence of observations, and the search for what breaks it.

Names are imported when they are first used, so that a help page needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.audit.auditing import audit
    from ncp_control.audit.certificate import Certificate
    from ncp_control.audit.recorded import RecordedPath

_HOME = {
    "ncp_control.audit.auditing": ("audit",),
    "ncp_control.audit.certificate": ("Certificate",),
    "ncp_control.audit.recorded": ("RecordedPath",),
}

__all__ = ["Certificate", "RecordedPath", "audit"]

__getattr__, __dir__ = names_of(__name__, _HOME)
