"""Runs random scans on kernels built with the compiler's address and undefined-behaviour sanitizers, counts findings.

    python scripts/stress/sanitizers.py --problems 200 --seed 0

Builds one machine level into a temporary folder, as setup.py does, and runs the problems in a process of its own. Needs
g++ with libasan and libubsan. Exits with 1 on any finding.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

HOUSE = Path(__file__).resolve().parents[2]
SANITIZERS = "-g -fno-omit-frame-pointer -fsanitize=address,undefined -fsanitize-recover=address,undefined"
FINDING = re.compile(r"runtime error: |ERROR: AddressSanitizer")
BUILD = """
import sys
from setuptools.dist import Distribution
from distutils.core import run_setup
found = run_setup("setup.py", stop_after="init")
found.ext_modules = [one for one in found.ext_modules if one.name.endswith("_" + sys.argv[1])]
command = found.get_command_obj("build_ext")
command.build_lib, command.build_temp = sys.argv[2], sys.argv[2]
found.run_command("build_ext")
"""


def build(level: str, folder: Path) -> Path:
    """Builds the kernels of one level with the sanitizers, and returns the library's path."""
    compiler = f"{os.environ.get('CXX', 'g++')} {SANITIZERS}"
    command = [sys.executable, "-c", BUILD, level, str(folder)]
    subprocess.run(command, cwd=HOUSE, env={**os.environ, "CXX": compiler}, check=True, stdout=subprocess.DEVNULL)
    library = folder / "ncp_control" / "ops" / "cpu" / f"_kernels_{level}.so"
    if not library.exists():
        raise SystemExit(f"the kernels were not built: is there a g++ with libasan and libubsan? ({compiler})")
    return library


def run_problems(path: Path, level: str, problems: int, seed: int) -> None:
    """Runs random scans on a library: forward, and in two of three also backward."""
    sys.path.insert(0, str(HOUSE / "tests"))
    import ncp_control as nc
    from helpers.cells import build as build_cell
    from helpers.cells import compiled
    from helpers.scans import sequences
    from ncp_control.ops.cpu import launch, library

    handle = ctypes.CDLL(str(path))
    different = library.structs_that_differ(handle)
    if different:
        raise SystemExit(f"the structs of {', '.join(different)} differ from those that Python fills")
    loaded = library.Library(level, handle)
    library.load = lambda: (loaded, "kernels with sanitizers")  # type: ignore[assignment]
    names = compiled(launch.KINDS)
    drawn = random.Random(seed)
    for number in range(problems):
        torch.manual_seed(drawn.randrange(2**31))
        name, dtype = names[number % len(names)], drawn.choice([torch.float32, torch.float64])
        batch, time = drawn.choice([0, 1, 2, 3, 5, 8, 17, 33, 65]), drawn.choice([0, 1, 2, 3, 7, 13])
        threads, form, flags = drawn.choice([1, 2]), drawn.randrange(4), drawn.randrange(4)
        cell = build_cell(name, dtype)
        inputs, state, elapsed, reset, mask = sequences(cell, batch, time, dtype, min(form, 2))
        launch.threads_for = lambda program, inputs, threads=threads: threads  # type: ignore[misc]
        arguments = (
            inputs if drawn.random() < 0.7 else torch.stack([inputs, inputs], -1)[..., 1],
            state if drawn.random() < 0.8 else None,
            0.5 if form == 3 else elapsed,
            reset if flags & 1 else None,
            mask if flags & 2 else None,
        )
        print(f"{number}: {name}, {dtype}, {batch} x {time}, {threads} threads", file=sys.stderr, flush=True)
        with torch.set_grad_enabled(drawn.random() < 0.67):
            states = nc.scan(cell, *arguments, backend="cpu")
        if states.requires_grad:
            states.square().sum().backward()  # type: ignore[no-untyped-call]


def main() -> None:
    """Builds, runs and counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=200, help="how many random scans (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the scans (default: 0)")
    parser.add_argument("--level", help="avx512, avx2 or portable (default: the best that this machine runs)")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the process with the sanitizers
    given = parser.parse_args()
    if given.library is not None:
        run_problems(given.library, given.level, given.problems, given.seed)
        return
    from ncp_control.ops.cpu.library import supported_levels

    level = given.level or supported_levels()[0]
    with tempfile.TemporaryDirectory() as folder:
        library = build(level, Path(folder))
        gcc = [*os.environ.get("CXX", "g++").split(), "-print-file-name=libasan.so"]
        preload = subprocess.run(gcc, check=True, capture_output=True, text=True).stdout.strip()
        options = {
            "LD_PRELOAD": preload,
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:alloc_dealloc_mismatch=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        command = [sys.executable, __file__, "--library", str(library), "--level", level]
        command += ["--problems", str(given.problems), "--seed", str(given.seed)]
        done = subprocess.run(command, env={**os.environ, **options}, stderr=subprocess.PIPE, text=True, check=False)
    findings = len(FINDING.findall(done.stderr))
    print(f"{given.problems} problems on {level} kernels, seed {given.seed}: {findings} findings")
    if findings or done.returncode:
        print(done.stderr[-6000:], file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
