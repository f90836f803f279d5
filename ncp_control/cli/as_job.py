"""A command of ncp-control as a job that runs apart, here or on a cluster."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ncp_control.base.files import lock
from ncp_control.base.processes import Report
from ncp_control.base.progress import listening
from ncp_control.base.run_folder import LOCK

NAME = "ncp-control"
OUT = "--out"
SECONDS_TO_WAIT = 30.0
SECONDS_BETWEEN_LOOKS = 0.2


class CommandError(ValueError):
    """A command ended with an error; its text is the sentence that the command printed."""


def run(words: list[str], log: str, report: Report) -> Any:
    """Runs a command and returns the JSON object that it prints last.

    :param words: the words after `ncp-control`, `--json` among them
    :param log: a file for what the command writes to stderr
    :param report: is told of the progress
    """
    from ncp_control.cli import main

    path, printed = Path(log), io.StringIO()
    path.parent.mkdir(parents=True, exist_ok=True)
    if OUT in words:
        wait_until_free(Path(words[words.index(OUT) + 1]))
    with (
        path.open("w", encoding="utf-8", errors="backslashreplace", buffering=1) as told,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(told),
        listening(report),
        _started_with(words),
    ):
        try:
            code = main(words)
        except Exception:
            traceback.print_exc(file=told)
            raise
    if code:
        lines = path.read_text(encoding="utf-8").splitlines()
        said = [line.removeprefix(f"{NAME}: ") for line in lines if line.startswith(f"{NAME}: ")]
        raise CommandError(said[-1] if said else f"it ended with code {code}")
    return json.loads(printed.getvalue().strip().splitlines()[-1])


def check(words: list[str]) -> None:
    """Raises ValueError for words that the command does not know, or whose values it cannot read."""
    from ncp_control.cli.arguments import read

    read(import_module(f"ncp_control.cli.{words[0]}").Arguments, f"{NAME} {words[0]}", words[1:])


def wait_until_free(folder: Path) -> None:
    """Waits for the process that has locked the folder of a run, for half a minute at most.

    It is perhaps one whose node or parent was lost a moment ago, and which is about to end.
    """
    until = time.monotonic() + SECONDS_TO_WAIT
    while (folder / LOCK).exists() and time.monotonic() < until:
        with (folder / LOCK).open("ab") as file:
            try:
                lock(file.fileno())
                return
            except BlockingIOError:
                time.sleep(SECONDS_BETWEEN_LOOKS)


@contextlib.contextmanager
def _started_with(words: list[str]) -> Iterator[None]:
    """Makes it look as if this process had been started with these words, which commands keep in their records."""
    before, sys.argv = sys.argv, [NAME, *words]
    try:
        yield
    finally:
        sys.argv = before
