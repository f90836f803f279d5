"""Builds a release and tests it: the source distribution, and a wheel for each machine that serves every Python.

1. The source distribution is built, and from it the wheels, with compiled kernels for x86-64 and Arm.
2. auditwheel gives each wheel the tag of the oldest glibc that its kernels need, and twine checks what a page shows.
3. In a fresh virtual environment of each --pythons, pip installs this machine's wheel. There, away from the sources,
   the compiled kernels are compared with the reference, and `ncp-control doctor` and `ncp-control demo` run.
4. An Arm Python in the emulator QEMU installs the Arm wheel and compares its kernels, and its reference with that of
   this machine. Where QEMU or debootstrap is missing, this step is left out and says so.

A virtual environment takes minutes and gigabytes; it is removed when its checks are done.

Example: python -m scripts.release --out dist --pythons python3.10 python3.13
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ncp_control._version import __version__
from scripts.release import arm
from scripts.release.commands import Tools, make_environment, run
from scripts.release.wheels import MACHINES, ROOT, build_source, build_wheel

CHECK = ROOT / "scripts" / "release" / "check_installed.py"


@dataclass
class Arguments:
    """What `--help` shows."""

    out: Path = Path("dist")
    """The folder for the files of the release; older ones in it are removed."""

    work: Path = Path("build/release")
    """The folder for tools, logs and virtual environments."""

    pythons: tuple[str, ...] = (sys.executable,)
    """Install this machine's wheel for each of these Pythons and check it; without a value, for none."""

    extras: str = "all"
    """The extras that are installed with the wheel."""

    arm: bool = True
    """Check the Arm wheel in an emulator."""


def main() -> int:
    """Builds and checks everything; returns 0 where all is well."""
    arguments = tyro.cli(Arguments, description=__doc__)
    os.environ.pop("PYTHONPATH", None)  # the checks must find what is installed, and nothing else
    out, work = arguments.out.resolve(), arguments.work.resolve()
    out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("ncp_control-*.whl"), *out.glob("ncp_control-*.tar.gz")):
        old.unlink()
    tools = Tools(work / "tools")
    source = build_source(tools, out)
    wheels = {machine: build_wheel(tools, source, machine, work / machine, out) for machine in MACHINES}
    run([tools.python, "-m", "twine", "check", "--strict", source, *wheels.values()])
    left_out = []
    numbers = work / "numbers.safetensors"
    here = platform.machine()
    for python in arguments.pythons if here in wheels else ():
        check_here(wheels[here], arguments.extras, python, work / "environment", numbers)
    if here not in wheels or not arguments.pythons:
        left_out.append("the wheel on this machine")
    reason = "--no-arm was given" if not arguments.arm else arm.obstacle()
    if reason is None:
        compare = ["--compare", numbers] if numbers.exists() else []
        arm.check_wheel(wheels[arm.MACHINE], [CHECK, "--version", __version__, *compare], work)
    else:
        left_out.append(f"the wheel on Arm: {reason}")
    print(
        "\nbuilt and checked:",
        *(f"  {path.name}  {path.stat().st_size / 1e6:.1f} MB" for path in out.iterdir()),
        sep="\n",
    )
    print("\n".join(f"NOT checked: {one}" for one in left_out))
    return 0


def check_here(wheel: Path, extras: str, python: str, environment: Path, numbers: Path) -> None:
    """Installs a wheel into a fresh virtual environment, runs the checks away from the sources, and removes it."""
    inside = make_environment(environment, python)
    run(
        [
            inside,
            "-m",
            "pip",
            "install",
            "--quiet",
            "-c",
            ROOT / "constraints.txt",
            f"{wheel}[{extras}]" if extras else wheel,
        ]
    )
    run([inside, "-m", "pip", "check"])
    empty = environment / "empty"
    empty.mkdir()
    run([inside, CHECK, "--version", __version__, "--save", numbers], cwd=empty)
    command = inside.with_name("ncp-control")
    run([command, "doctor"], cwd=empty)
    if extras == "all":
        run([command, "demo"], cwd=empty)
    shutil.rmtree(environment)
