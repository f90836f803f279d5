"""The recurrent scan of a whole batch of sequences."""

from ncp_control.ops.dispatch import BACKENDS, available_backends, check_backend, choose_backend, explain_backends, scan
from ncp_control.ops.fallback import SlowScanWarning

__all__ = [
    "BACKENDS",
    "SlowScanWarning",
    "available_backends",
    "check_backend",
    "choose_backend",
    "explain_backends",
    "scan",
]
