"""Waiting for what another process, a thread or a page does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

# Looks, not seconds: they bound a hang, and nothing else. Whatever is waited for comes within seconds, or never, and a
# machine that is busy or that was suspended takes longer for each look.
LOOKS, PAUSE = 30_000, 0.01


def wait_until(holds: Callable[[], Any], what: str) -> None:
    """Waits until a condition holds; the test fails if it does not after five minutes or more.

    :param holds: the condition
    :param what: what is waited for, in words, for the error
    """
    for _ in range(LOOKS):
        if holds():
            return
        time.sleep(PAUSE)
    pytest.fail(f"this was waited for in vain: {what}")
