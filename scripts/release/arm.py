"""Tests the Arm wheel on a machine of another kind: an Arm Python with torch, which the emulator QEMU runs.

Python and the C libraries are Debian's for arm64, unpacked into a folder. pip runs in the emulator too, so it chooses
the wheel, torch and the rest as it does on an Arm machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from scripts.release.commands import run

MACHINE = "aarch64"
SUITE, VERSION = "bookworm", "3.11"  # Debian 12 and its Python
EMULATOR = "qemu-aarch64-static"
# The oldest one that the package takes: later builds for Arm come with gigabytes of CUDA, which nothing here can use.
TORCH = "torch==2.6.0"


def obstacle() -> str | None:
    """Says why this machine cannot test the Arm wheel; None where it can."""
    missing = [name for name in (EMULATOR, "debootstrap", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is missing (apt-get install debootstrap qemu-user-static)"
    return None if os.geteuid() == 0 else "debootstrap needs to be root"


def check_wheel(wheel: Path, check: list[object], work: Path) -> None:
    """Installs the wheel on the emulated machine and runs a check there.

    :param wheel: the Arm wheel
    :param check: a program in Python and its arguments
    :param work: the folder for Debian's and PyPI's packages
    """
    python, packages = make_python(work / "debian"), work / "packages"
    run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, "pip"])
    (pip,) = work.glob("pip-*.whl")
    shutil.rmtree(packages, ignore_errors=True)
    install = ["-m", "pip", "install", "--quiet", "--no-compile", "--target", packages, wheel, TORCH]
    run([*python, *install], env={**os.environ, "PYTHONPATH": str(pip)})
    run([*python, *check], env={**os.environ, "PYTHONPATH": str(packages)}, cwd=work)


def make_python(folder: Path) -> list[object]:
    """Unpacks an Arm Python with its C libraries, unless it is there, and returns the words that start it."""
    path = folder / "usr" / "bin" / f"python{VERSION}"
    if not path.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        options = ["--arch=arm64", "--foreign", "--variant=minbase", "--include=python3,libgomp1,libstdc++6"]
        run(["debootstrap", *options, SUITE, partial])
        for package in sorted((partial / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            run(["dpkg-deb", "-x", package, partial])
        partial.rename(folder)
    return [EMULATOR, "-L", folder, path]
