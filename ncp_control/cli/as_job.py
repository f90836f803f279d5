"""A command of ncp-control as a job that runs apart, here or on a cluster."""

from __future__ import annotations

import contextlib
import time
import traceback
from pathlib import Path
from typing import Any

from ncp_control.base.files import lock
from ncp_control.base.processes import Report
from ncp_control.base.progress import listening
from ncp_control.cli import complain, distil, explain, fit, train
from ncp_control.cli.arguments import read, typed_command
from ncp_control.runs.folder import LOCK

COMMANDS: dict[str, Any] = {"train": train, "distil": distil, "fit": fit}
OUT = "--out"
SECONDS_TO_WAIT = 30.0
SECONDS_BETWEEN_LOOKS = 0.2


class CommandError(ValueError):
    """A command ended with an error; its text is the sentence that the command would have printed."""


def run(words: list[str], log: str, report: Report) -> Any:
    """Runs a command and returns what it would print with `--json`.

    :param words: the words after `ncp-control`
    :param log: a file for what the command writes
    :param report: gets the progress
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    if OUT in words:
        wait_until_free(Path(words[words.index(OUT) + 1]))
    with (
        path.open("w", encoding="utf-8", errors="backslashreplace", buffering=1) as written,
        contextlib.redirect_stdout(written),
        contextlib.redirect_stderr(written),
        listening(report),
    ):
        try:
            arguments = check(words)
            result, _ = COMMANDS[words[0]].outcome(arguments, typed_command(words))
        except Exception as error:
            traceback.print_exc()
            sentence = explain(error) if isinstance(error, ValueError | OSError | ModuleNotFoundError) else None
            if sentence is None:
                raise
            complain(sentence)
            raise CommandError(sentence) from error
    return result


def check(words: list[str]) -> Any:
    """Reads the arguments of a command; raises ValueError for words that it does not know or cannot read."""
    return read(COMMANDS[words[0]].Arguments, f"ncp-control {words[0]}", words[1:])


def wait_until_free(folder: Path) -> None:
    """Waits for the process that has locked the folder of a run, for half a minute at most.

    That process may have lost its node or its parent a moment ago, and be about to end.
    """
    until = time.monotonic() + SECONDS_TO_WAIT
    while (folder / LOCK).exists() and time.monotonic() < until:
        with (folder / LOCK).open("ab") as file:
            try:
                lock(file.fileno())
                return
            except BlockingIOError:
                time.sleep(SECONDS_BETWEEN_LOOKS)
