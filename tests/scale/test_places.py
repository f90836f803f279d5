"""The names of places."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.command_line import ROOT
from ncp_control.base.processes import Processes, core_count
from ncp_control.scale.cluster import Cluster, place_of


def test_local_is_this_machine() -> None:
    assert place_of("local") == Processes(core_count())
    assert place_of("local", 3) == Processes(3)


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("ray", True),
        ("auto", False),
        ("127.0.0.1:6379", False),
        ("head.example.org:6379", False),
        ("ray://head:10001", False),
        ("ray://[::1]:10001", False),
    ],
)
def test_a_cluster_by_its_address(name: str, shared: bool) -> None:
    """Only a cluster that is started here shares the disk unless one says so."""
    assert place_of(name) == Cluster(name, 0, shared)
    assert place_of(name, 5, True) == Cluster(name, 5, True)


@pytest.mark.parametrize("name", ["", "mars", "ray://head", "head", "http://head:80", "head:port", "local:1x", "Ray"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"there is no place .* to run on: choose local, ray, auto"):
        place_of(name)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        place_of("ray", 0)
    with pytest.raises(ValueError, match="processes of this machine share its disk"):
        place_of("local", shared=True)


@pytest.mark.system
def test_without_ray_a_cluster_says_how_to_install_it(tmp_path: Path) -> None:
    """Ray is hidden, as on a machine that does not have it; everything else works there."""
    code = """
import sys
sys.modules["ray"] = None
from ncp_control.cli import main
sys.exit(main(["sweep", "pendulum-positions", "--steps", "64", "--on", "ray", "--out", sys.argv[1]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "sweep")], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line == 'ncp-control: this needs ray, which is missing: pip install "ncp-control[scale]"'
    assert list(tmp_path.iterdir()) == []
