"""How many mutated files, and where they are; a small disk."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk in memory; a second call changes its options."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        how = ["-o", f"remount,{options}"] if mounted else ["-t", "tmpfs", "-o", options, "tmpfs"]
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            pytest.skip("only root may mount a small disk")
        done = subprocess.run(["mount", *how, str(place)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)
