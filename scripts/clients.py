"""Runs the tests of tests/integrations against the real libraries, each in a folder of its own.

    python scripts/clients.py              all libraries
    python scripts/clients.py rsl_rl       one of them; what comes after `--` goes to pytest

tests/integrations/clients.yml names the libraries' packages and versions. They are installed once, without their
dependencies, into build/clients, and laid over the environment that runs this script.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "clients"
LISTED = ROOT / "tests" / "integrations" / "clients.yml"


def main(words: list[str]) -> int:
    """Installs what is missing, runs the tests of each library, and prints which failed."""
    place = words.index("--") if "--" in words else len(words)
    names, options = words[:place], words[place + 1 :]
    libraries: dict[str, list[str]] = yaml.safe_load(LISTED.read_text(encoding="utf-8"))
    unknown = sorted(set(names) - set(libraries))
    if unknown:
        print(f"there is no library {unknown[0]!r} in {LISTED.name}: choose from {', '.join(libraries)}")
        return 2
    failed = []
    for name in names or libraries:
        folder = installed(name, libraries[name])
        print(f"== {name}: {libraries[name][0]}", flush=True)
        if subprocess.run(command_for(name, options), cwd=ROOT, env=environment(folder), check=False).returncode:
            failed.append(name)
    print("every library passes" if not failed else f"failed: {', '.join(failed)}")
    return bool(failed)


def installed(name: str, packages: list[str]) -> Path:
    """Installs a library's packages into a folder, unless they are there, and returns the folder."""
    digest = hashlib.sha256(repr((packages, sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = FOLDER / f"{name}-{digest}"
    if not folder.exists():
        part = folder.with_suffix(f".{os.getpid()}.part")
        began = time.monotonic()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part), *packages]
        subprocess.run(command, check=True)
        part.rename(folder)
        print(f"== {name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    return folder


def command_for(name: str, options: list[str]) -> list[str]:
    """Returns the command that runs a library's tests, and the Python on its page."""
    tests, page = [f"tests/integrations/test_{name}.py"], f"docs/integrations/{name}.md"
    if (ROOT / page).is_file():
        tests.append(f"tests/docs/test_python_blocks.py::test_every_block_runs[{page}]")
    return [sys.executable, "-m", "pytest", *tests, "-m", "clients", "-q", *options]


def environment(folder: Path) -> dict[str, str]:
    """Returns the variables of a process in which the packages of a folder come first."""
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
