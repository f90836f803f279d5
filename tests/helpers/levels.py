"""Compiled CPU scans at a level of the test's choice, whatever the machine or the environment would choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ncp_control.ops.cpu import library


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """Runs all compiled scans inside at a level; skips the test where this machine cannot."""
    if not library.path_of(level).exists():
        pytest.skip(f"the kernels of the level {level} were not built")
    if level not in library.supported_levels():
        pytest.skip(f"this processor cannot run the level {level}")
    loaded, reason = library.load_level(level)
    assert loaded is not None, reason
    with running(loaded):
        yield


@contextmanager
def running(loaded: library.Library) -> Iterator[None]:
    """Runs all compiled scans inside on a library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "load", lambda: (loaded, f"compiled kernels, {loaded.level}"))
        yield
