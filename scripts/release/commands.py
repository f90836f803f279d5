"""Runs other programs, and has the ones that a release is built with."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run(words: Sequence[object], **settings: Any) -> None:
    """Runs a program; ends this one if it fails.

    :param words: the program and its arguments
    :param settings: further settings of `subprocess.run`, such as `env` and `cwd`
    """
    command = [str(word) for word in words]
    print(f"$ {shlex.join(command)}", flush=True)
    code = subprocess.run(command, **settings).returncode
    if code:
        raise SystemExit(f"the release stops: this failed with exit code {code}: {shlex.join(command)}")


def make_environment(folder: Path, python: str | Path = sys.executable) -> Path:
    """Makes an empty virtual environment and returns its Python."""
    run([python, "-m", "venv", "--clear", folder])
    return folder / "bin" / "python"


class Tools:
    """The programs that a release is built with, in a virtual environment of their own, as pinned in tools.txt."""

    def __init__(self, folder: Path) -> None:
        """Installs them, unless they are there.

        :param folder: the folder of the virtual environment
        """
        self.python = folder / "bin" / "python"
        pins = Path(__file__).with_name("tools.txt")
        done = folder / "tools.txt"
        if not done.exists() or done.read_bytes() != pins.read_bytes():
            make_environment(folder)
            run([self.python, "-m", "pip", "install", "--quiet", "-r", pins])
            done.write_bytes(pins.read_bytes())
