"""Plants thirty faults, one after the other, in a copy of the project, and says which tier of the tests finds each.

    python scripts/stress/planted_faults.py                          # every fault: fast tier, then system tier
    python scripts/stress/planted_faults.py --only bounds-too-narrow padding-row-counts --tier fast
    python scripts/stress/planted_faults.py --whole --json runs/faults.json     # also all of the fast tier: hours

A fault is first shown to the test files that should see it (`faults.py` names them), without what is slow. Exits with 1
if there is a fault that no tier finds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from faults import FAULTS, Fault
from sanitizers import BUILD

HOUSE = Path(__file__).resolve().parents[2]
TIERS = {"fast": "not system and not slow", "system": "system and not slow and not gpu"}
LIBRARIES = "ncp_control/ops/cpu/_kernels_{}.so"
NOTHING_TO_RUN = 5  # pytest's exit code


@dataclass(frozen=True)
class Finding:
    """What came of a fault.

    :param tier: the tier that finds it; "" for none
    :param test: the first test that fails
    :param seconds: how long all tests took
    """

    fault: str
    room: str
    tier: str
    test: str
    seconds: float


class Copy:
    """A copy of the project, with its compiled kernels, in which tests run.

    :param folder: an empty folder
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=HOUSE, capture_output=True, text=True, check=True).stdout
        kernels = [str(path.relative_to(HOUSE)) for path in HOUSE.glob(LIBRARIES.format("*"))]
        for name in [*filter(None, listed.split("\0")), *kernels]:
            if (HOUSE / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(HOUSE / name, folder / name)
        paths = f"{folder}{os.pathsep}{folder / 'envs'}"  # before the installed package, in child processes too
        self.environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": ""}
        self._check_imports()

    def _check_imports(self) -> None:
        """Refuses to go on if Python would import the package from elsewhere, where no fault is."""
        code = "import ncp_control, ncp_envs; print(ncp_control.__file__); print(ncp_envs.__file__)"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd="/", env=self.environment, capture_output=True, text=True, check=True)
        elsewhere = [line for line in done.stdout.splitlines() if not line.startswith(str(self.folder))]
        if elsewhere:
            raise SystemExit(f"Python imports {elsewhere[0]}, not the copy in {self.folder}: nothing could be planted")

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Puts a fault into the copy for the length of the block, and compiles the kernels if it is in them."""
        path = self.folder / fault.path
        times, whole = path.stat(), path.read_text(encoding="utf-8")
        compiled = {}
        if path.suffix == ".h":
            libraries = {level: self.folder / LIBRARIES.format(level) for level in levels_here()}
            compiled = {level: (library, library.read_bytes()) for level, library in libraries.items()}
        path.write_text(whole.replace(fault.old, fault.new), encoding="utf-8")
        try:
            for level, (library, _) in compiled.items():
                self._compile(fault, level, library)
            yield
        finally:
            path.write_text(whole, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Python's caches go by it
            for library, content in compiled.values():
                library.write_bytes(content)

    def _compile(self, fault: Fault, level: str, library: Path) -> None:
        """Compiles the kernels of one level, as setup.py does."""
        with tempfile.TemporaryDirectory() as made:
            command = [sys.executable, "-c", BUILD, level, made]
            subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
            built = Path(made) / library.relative_to(self.folder)
            if not built.exists():
                raise SystemExit(f"the fault {fault.name} does not compile: write one that does")
            library.write_bytes(built.read_bytes())

    def failing(self, tests: Sequence[str], tier: str, *words: str) -> list[str]:
        """Runs tests, and returns those that failed; one word for a run that ended in another way.

        :param tests: test files and folders
        :param tier: a key of `TIERS`
        :param words: more words for pytest
        """
        command = [sys.executable, "-m", "pytest", *tests, "-m", TIERS[tier], "-q", "-p", "no:cacheprovider", *words]
        # pytest ends a test that hangs after two minutes, so nothing has to be ended here
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if failed or done.returncode in (0, NOTHING_TO_RUN):
            return failed
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        return [f"no test, but pytest ended with {done.returncode}: {last}"]


def levels_here() -> tuple[str, ...]:
    """Returns the levels of the kernels that tests here run on, among which the fast tier shares its cells."""
    from ncp_control.ops.cpu.library import supported_levels

    return tuple(supported_levels())


def check_places(copy: Copy, faults: Sequence[Fault]) -> None:
    """Refuses faults that cannot be planted: the text is not there, or not only once; a test file is missing."""
    for fault in faults:
        path = copy.folder / fault.path
        count = path.read_text(encoding="utf-8").count(fault.old) if path.is_file() else 0
        if count != 1:
            raise SystemExit(f"{fault.name}: {fault.path} has {count} places with its old text: write it anew")
        missing = next((name for name in fault.tests if not (copy.folder / name).is_file()), None)
        if missing is not None:
            raise SystemExit(f"{fault.name}: there is no {missing}: name the tests that should see it")


def check_green(copy: Copy, faults: Sequence[Fault], tier: str, whole: bool) -> None:
    """Refuses to go on with tests that fail without a fault, because they would seem to find every one."""
    tests, words = sorted({name for fault in faults for name in fault.tests}), list[str]()
    if whole and tier == "fast":
        tests, words = ["tests"], ["-n", "2"]
    red = copy.failing(tests, tier, *words) if tests else []
    if red:
        named = "\n  ".join(red)
        raise SystemExit(f"these tests of the {tier} tier fail without a fault, so they would find any:\n  {named}")


def first_failing(copy: Copy, fault: Fault, tier: str, whole: bool) -> str | None:
    """Plants a fault, and returns the first test of a tier that fails, if one does."""
    with copy.planted(fault):
        failed = copy.failing(fault.tests, tier, "-x")
        if not failed and whole and tier == "fast":
            failed = copy.failing(["tests"], tier, "-x", "-n", "2")
    return failed[0] if failed else None


def findings(copy: Copy, faults: Sequence[Fault], tiers: Sequence[str], whole: bool) -> Iterator[Finding]:
    """Gives what came of each fault. The second tier gets those that the first one misses."""
    seconds = dict.fromkeys(faults, 0.0)
    left = list(faults)
    for tier in tiers:
        check_green(copy, left, tier, whole)
        missed = []
        for fault in left:
            began = time.perf_counter()
            test = first_failing(copy, fault, tier, whole)
            seconds[fault] += round(time.perf_counter() - began, 1)
            if test is None:
                missed.append(fault)
            else:
                yield Finding(fault.name, fault.room, tier, test, seconds[fault])
        left = missed
    for fault in left:
        yield Finding(fault.name, fault.room, "", "", seconds[fault])


def main() -> int:
    """Reads the command line, and plants."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help="plant only these")
    parser.add_argument("--tier", choices=[*TIERS, "both"], default="both", help="the tests that run (default: both)")
    parser.add_argument("--whole", action="store_true", help="the whole fast tier for a fault that its tests miss")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the findings here")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if fault.name in options.only]
    tiers = list(TIERS) if options.tier == "both" else [options.tier]
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder).resolve())
        check_places(copy, faults)
        for one in findings(copy, faults, tiers, options.whole):
            found.append(one)
            print(
                f"{one.fault:36} {one.room:18} {one.tier or 'NO TIER':7} {one.seconds:6.1f} s  {one.test}", flush=True
            )
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    print(f"{sum(one.tier == 'fast' for one in found)} of {len(found)} found by the fast tier")
    return 0 if all(one.tier for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
