"""One browser and one laboratory for many tests, because they take longer to start and to write than most tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.bench import bench
from helpers.browser_page import Page, running_browser
from helpers.command_line import ROOT
from helpers.laboratories import exhibit_of, write


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from running_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def cheetahs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped circuit that sees positions, and another one that can be put beside it."""
    acyclic = ROOT / "checkpoints" / "halfcheetah-positions-acyclic.safetensors"
    return write(tmp_path_factory.mktemp("cheetahs"), exhibit_of(), exhibit_of(acyclic))


@pytest.fixture
def lab(browser: Any, cheetahs: Path) -> Iterator[Page]:
    """The laboratory of the shipped circuit that sees positions; after the test, no error may have occurred in it."""
    page = bench(browser, cheetahs)
    yield page
    assert page.errors() == []
