"""Runs the tests as other machines would: without AVX-512, on one busy core, in a random order, as an ordinary user.

    python scripts/stress/steady.py                               # the fast tier, eleven runs
    python scripts/stress/steady.py --tier system --conditions plain avx2 --log runs/steady

A test whose outcome depends on the machine turns red here. Prints one line for each run and the tests that failed, and
exits with 1 if there were any. Everything else on the machine should rest meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HOUSE = Path(__file__).resolve().parents[2]
TIERS = {"fast": "not system and not slow", "system": "system and not slow and not gpu"}
AVX2 = {
    "NCP_CONTROL_CPU_LEVEL": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
PORTABLE = {
    "NCP_CONTROL_CPU_LEVEL": "portable",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
NOBODY = 65534


@dataclass(frozen=True)
class Condition:
    """One way to run the tests.

    :param runs: how many times
    :param environment: variables of the processor's libraries
    :param busy: on one core, which a busy loop shares
    :param shuffled: in a random order, another one each time
    :param ordinary: as a user who may not write into the project, if this process may become one
    """

    runs: int
    environment: dict[str, str] = field(default_factory=dict)
    busy: bool = False
    shuffled: bool = False
    ordinary: bool = False


CONDITIONS = {
    "plain": Condition(3),
    "avx2": Condition(2, AVX2),
    "portable": Condition(1, PORTABLE),
    "busy": Condition(2, busy=True),
    "shuffled": Condition(2, shuffled=True),
    "ordinary": Condition(1, ordinary=True),
}


def without_avx512() -> dict[str, str]:
    """NumPy's variable that switches off what an AVX2 machine lacks, if this machine has it."""
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    present = [name for name, there in features.items() if there and name.startswith(("AVX512", "X86_V4"))]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(present)} if present else {}


@contextmanager
def busy_loop(core: int) -> Iterator[None]:
    """Keeps a core busy."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(loop.pid, {core})
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def copy_for_nobody(folder: Path) -> None:
    """Copies the project, with its compiled kernels, to where an ordinary user may read it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    kernels = [str(path.relative_to(HOUSE)) for path in HOUSE.glob("ncp_control/ops/cpu/_kernels_*.so")]
    for name in [*filter(None, listed.split("\0")), *kernels]:
        if (HOUSE / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HOUSE / name, folder / name)


def run(condition: Condition, tier: str, turn: int, log: Path, more: list[str]) -> tuple[int, str, list[str]]:
    """Runs the tests once, and returns pytest's exit code, its last line and the tests that failed."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **condition.environment}
    if condition.environment is AVX2:
        environment |= without_avx512()
    workers = "2" if not condition.busy else "1"
    command = [sys.executable, "-m", "pytest", "-m", TIERS[tier], "-n", workers, "-q", "-p", "no:cacheprovider", *more]
    if condition.shuffled:
        command += ["--shuffle", str(turn)]
    if condition.busy:
        command = ["taskset", "-c", "0", *command]
    with tempfile.TemporaryDirectory() as folder:
        place = HOUSE
        if condition.ordinary:
            place, home = Path(folder) / "project", Path(folder) / "home"
            place.mkdir()
            copy_for_nobody(place)
            for path in (Path(folder), home):
                path.mkdir(exist_ok=True)
                os.chown(path, NOBODY, NOBODY)
            environment |= {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": f"{place}:{place / 'envs'}"}
            command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
        with open(log, "w") as output:
            if condition.busy:
                with busy_loop(0):
                    code = subprocess.run(command, cwd=place, env=environment, stdout=output, stderr=output).returncode
            else:
                code = subprocess.run(command, cwd=place, env=environment, stdout=output, stderr=output).returncode
    text = log.read_text(errors="replace")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return code, text.strip().rpartition("\n")[2].strip("= "), failed


def main() -> int:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tier", choices=TIERS, default="fast")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS), metavar="NAME",
                        help=f"of {', '.join(CONDITIONS)}; all of them if not given")  # fmt: skip
    parser.add_argument("--runs", type=int, help="how many times each; if not given, eleven runs in all")
    parser.add_argument("--log", type=Path, default=Path("runs/steady"), help="folder of the outputs")
    parser.add_argument("pytest", nargs="*", help="more words for pytest, after --")
    options = parser.parse_args()
    options.log.mkdir(parents=True, exist_ok=True)
    red = total = 0
    for name in options.conditions:
        condition = CONDITIONS[name]
        if condition.ordinary and os.getuid() != 0:
            print(f"{name:9}   every run here is one of an ordinary user")
            continue
        for turn in range(options.runs or condition.runs):
            began = time.perf_counter()
            log = options.log / f"{options.tier}-{name}-{turn}.log"
            code, summary, failed = run(condition, options.tier, turn, log, options.pytest)
            minutes, seconds = divmod(round(time.perf_counter() - began), 60)
            verdict = "green" if code == 0 else "RED"
            print(f"{name:9} {turn + 1}  {verdict:5}  {minutes}:{seconds:02}  {summary}", flush=True)
            for test in failed:
                print(f"             {test}", flush=True)
            total, red = total + 1, red + (code != 0)
    print(f"{total - red} green of {total}; outputs in {options.log}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
