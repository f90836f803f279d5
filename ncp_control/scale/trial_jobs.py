"""A job that tries a place out."""

from __future__ import annotations

from pathlib import Path

from ncp_control.base.processes import Report


def write(name: str, megabytes: int, report: Report) -> None:
    """Writes a file of so many megabytes; none if that is 0."""
    if megabytes:
        Path(name).write_bytes(b"\1" * (megabytes * 10**6))
