"""`ncp-control` as a person meets it: what a command prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncp_control.cli import main

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a real `ncp-control` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ncp_control.cli", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Returns the one line on stderr of a command that must be refused with exit code 2."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Returns what a command that must succeed prints."""
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def described(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Returns the JSON values that `describe` prints."""
    return json.loads(printed(capsys, "describe", *words, "--json"))


def collected(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Returns the JSON object of a collection of CartPole that must succeed."""
    assert main(["collect", "--env", "CartPole-v1", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def complaint(output: str) -> str:
    """Returns the one line of an output that is not a line of progress; it must be an error."""
    (line,) = [line for line in output.splitlines() if not re.match(r"[a-z ]+: \d+ of \d+", line)]
    assert line.startswith("ncp-control: ")
    return line


def refused_after_progress(capfd: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Returns the error of a command that must be refused with exit code 2, perhaps after lines of progress."""
    assert main([str(word) for word in words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    return complaint(err)
