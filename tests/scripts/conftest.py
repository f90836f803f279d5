"""What the tests of scripts share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def import_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    return importlib.import_module
