"""Wheels of this project, and virtual environments that have one."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a build reads; the rest of the tree, and whatever earlier builds left in it, stays out of the way.
BUILD_INPUTS = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "ncp_control",
    "envs",
    "checkpoints",
)
# What earlier builds and tests leave in them.
MADE_HERE = ("__pycache__", ".*cache", ".hypothesis", "*.egg-info", "*.so", "*.tmp", "*.pyc")


def copy_sources(names: Iterable[str], into: Path) -> Path:
    """A copy of a part of the sources, without what builds and tests have left in them."""
    into.mkdir()
    for name in names:
        if (ROOT / name).is_dir():
            copytree(ROOT / name, into / name, ignore=ignore_patterns(*MADE_HERE))
        else:
            copy2(ROOT / name, into / name)
    return into


def build_wheel(folder: Path, **environment: str) -> Path:
    """A wheel built in `folder` from a copy of the sources, without a network."""
    pytest.importorskip("setuptools", "77")
    source = copy_sources(BUILD_INPUTS, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    built = subprocess.run(
        [*command, "-w", str(folder), str(source)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Installs a wheel into a new virtual environment that borrows every other package from the one that runs.

    :param wheel: the wheel's path
    :param folder: where the environment is made
    :return: its folder of programs
    """
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--no-deps", "--no-index"]
    installed = subprocess.run([*command, "--quiet", str(wheel)], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    # A path in a .pth file comes after the environment's own packages, and the .pth files that lie there are not read:
    # so an editable installation of the sources is not seen.
    borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    for program in Path(sys.executable).parent.iterdir():  # such as torchrun, whose first line names its Python
        if program.is_file() and not (copy := programs / program.name).exists():
            begin = f"#!{programs / 'python'}\n".encode()
            content, replaced = re.subn(rb"\A#!.*python.*\n", begin, program.read_bytes())
            if replaced:
                copy.write_bytes(content)
                copy.chmod(0o755)
    return programs
