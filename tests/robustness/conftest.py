"""How many mutated files, and where they are."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(
    params=[pytest.param(1, marks=pytest.mark.system), pytest.param(6, marks=pytest.mark.slow)], ids=["some", "many"]
)
def times(request: pytest.FixtureRequest) -> int:
    """How many times the usual number of files."""
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder, in memory where the system has such folders."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def trap(place: Path) -> Iterator[Path]:
    """A file that exists only after a pickle has been loaded, which no reader may do."""
    yield place / "sprung"
    assert not (place / "sprung").exists()
