"""What is installed when somebody installs this: one version, two packages, their types, the command, the license."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

import ncp_control
from helpers.wheels import ROOT, build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a machine without a C++ compiler: quick to build, and it must install and run all the same."""
    return build_wheel(tmp_path_factory.mktemp("wheel"), CXX="no-such-compiler")


def modules(folder: Path, prefix: str) -> set[str]:
    return {f"{prefix}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}


@pytest.mark.system
def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = modules(ROOT / "ncp_control", "ncp_control") | modules(ROOT / "envs" / "ncp_envs", "ncp_envs")
    assert {name for name in names if name.endswith(".py")} == expected
    assert {"ncp_control/py.typed", "ncp_envs/py.typed"} <= names
    shipped = {f"ncp_control/checkpoints/{path.name}" for path in (ROOT / "checkpoints").iterdir()}
    assert {name for name in names if name.startswith("ncp_control/checkpoints/")} == shipped
    assert {name.split("/")[0] for name in names} == {"ncp_control", "ncp_envs"}


@pytest.mark.system
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    described = message_from_string(archive.read(f"{folder}/METADATA").decode())
    assert described["Name"] == "ncp-control"
    assert described["Version"] == ncp_control.__version__
    assert described["License-Expression"] == "Apache-2.0"
    assert "ncp-control = ncp_control.cli:main" in archive.read(f"{folder}/entry_points.txt").decode()
    assert archive.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


@pytest.mark.system
def test_the_page_of_a_wheel_links_to_nothing_that_is_not_beside_it(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    described = message_from_string(archive.read(name).decode())
    assert described["Description-Content-Type"] == "text/markdown"
    page = described.get_payload()
    assert "# ncp_control\n" in page
    assert "ncp-control demo" in page
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.system
def test_every_python_that_is_supported_is_tested_and_named(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    described = message_from_string(archive.read(name).decode())
    assert described["Requires-Python"] == "<3.14,>=3.10"
    versions = ["3.10", "3.11", "3.12", "3.13"]
    for version in versions:
        assert f"Programming Language :: Python :: {version}" in described.get_all("Classifier", [])
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert f"python: {json.dumps(versions)}" in workflow


def files_of_the_project() -> list[str]:
    """The files that git keeps. What else lies in somebody's checkout is not the project's."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("only git, in a checkout, says which files are the project's")
    # a checkout of another user's, as in a container, is safe enough to list
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.system
def test_the_source_distribution_holds_every_file_of_the_project(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    names, source = files_of_the_project(), tmp_path / "source"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    built = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (path,) = tmp_path.glob("ncp_control-*.tar.gz")
    with tarfile.open(path) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert set(names) - found == set()


@pytest.mark.slow
@pytest.mark.timeout(900)  # the compiler takes half a minute or more for each machine level
@pytest.mark.skipif(not shutil.which(shlex.split(os.environ.get("CXX", "c++"))[0]), reason="needs a C++ compiler")
def test_a_compiler_adds_the_kernels_to_the_wheel(wheel: Path, tmp_path: Path) -> None:
    compiled = zipfile.ZipFile(build_wheel(tmp_path)).namelist()
    assert {"ncp_control/ops/cpu/_kernels_portable.so", "ncp_envs/_physics.so"} <= set(compiled)
    assert not any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())


def test_the_installed_version_is_the_one_in_the_source() -> None:
    try:
        installed = metadata("ncp-control")["Version"]
    except PackageNotFoundError:
        pytest.skip("ncp-control is not installed here, only on the path")
    assert installed == ncp_control.__version__


def test_importing_the_package_is_light() -> None:
    seen = "import sys, ncp_control; sys.exit(not {'torch', 'numpy'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", seen], cwd=ROOT).returncode == 0


@pytest.mark.system
def test_a_network_runs_without_loading_torchs_compiler() -> None:
    """Importing it takes as long as torch itself."""
    run = "import sys, torch, ncp_control as nc; nc.RNN(nc.LTC(2, 3))(torch.zeros(1, 2, 2))"
    done = subprocess.run([sys.executable, "-c", f"{run}; sys.exit('torch._dynamo' in sys.modules)"], cwd=ROOT)
    assert done.returncode == 0


def test_every_public_name_is_there() -> None:
    for name in ncp_control.__all__:
        assert getattr(ncp_control, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ncp_control.nonsense  # noqa: B018
