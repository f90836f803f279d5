"""A run: a long piece of work in a folder of its own, which can be stopped at any moment and resumed.

Trainings, fits, distillations, comparisons, sweeps and searches are runs. A run knows nothing of what is done in it. It
has the folder, its lock and its record, the seeds, the time, the progress, and the words after Ctrl-C; what is resumed,
and how, is known to the work itself, which keeps it in `state.safetensors`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import temporary_folder, write_atomically
from ncp_control.base.kinds import RECORD
from ncp_control.base.progress import Tracker, say, tracked
from ncp_control.runs.folder import Hold, check_same, merge_entries, read_record, refuse_foreign, versions

STATE, BEST, LAST = "state.safetensors", "best.safetensors", "last.safetensors"


class Run:
    """One run. Nothing is written, and no folder made, before it is opened.

    Example::

        run = Run("runs/a", seed=1, resume=True)
        ...  # what the work refuses is refused here
        with run.open(about, ("torch",), results=(STATE,)), run.doing("fitting", 200):
            run.tracker.advance(1)

    :param out: a folder for this run alone; None for work that leaves no folder
    :param seed: everything random follows from it
    :param resume: go on with the run in the folder, or begin it if the folder holds none
    :param command: the command line to keep in the record
    :param progress: show progress on stderr
    :ivar earlier: the seconds that the run took before it was resumed; the work sets them from its state
    :ivar tracker: shows the progress of what is being done
    """

    def __init__(
        self,
        out: str | Path | None,
        *,
        seed: int = 0,
        resume: bool = False,
        command: str = "",
        progress: bool = True,
    ) -> None:
        self.out = None if out is None else Path(out)
        self.seed, self.resume, self.command, self.progress = seed, resume, command, progress
        self.is_kept = out is not None  # a temporary folder is gone afterwards
        self.earlier, self._start = 0.0, time.monotonic()
        self.tracker = Tracker("", 0, 0, "")
        self._results: tuple[str, ...] = ()

    @cached_property
    def before(self) -> dict[str, Any]:
        """The record of the run that goes on; empty if there is none."""
        return read_record(self.path(RECORD)) if self.resume and self.has(RECORD) else {}

    @contextmanager
    def open(
        self, about: dict[str, Any], packages: tuple[str, ...], results: tuple[str, ...] = (), scratch: bool = False
    ) -> Iterator[None]:
        """Makes and locks the folder and writes its record; the folder is locked while the block runs.

        A folder with other files in it is refused. A run that ended before it had a result does not count, and its
        record is replaced.

        :param about: what makes the result, as JSON values; a run is resumed only if all of these are the same
        :param packages: the packages whose versions are kept in the record; if these or the command differ when a run
            is resumed, the record keeps both
        :param results: the files or folders of which a run that has a result has at least one; it is resumed from the
            first of them. Without names every run counts
        :param scratch: without a folder, work in a temporary one
        """
        self._results = results
        if self.out is None:
            if not scratch:
                yield
                return
            with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as self.out:
                yield
            return
        refuse_foreign(self.out)  # before anything is made in it
        self.out.mkdir(parents=True, exist_ok=True)
        with Hold(self.out):
            # Looked at behind the lock: another process may have begun a run a moment ago.
            record, more = self.path(RECORD), {"command": self.command, "versions": versions(packages)}
            if record.exists() and (not results or any(map(self.has, results))):
                if not self.resume:
                    raise FileExistsError(
                        f"{self.out} holds a run already: resume it (--resume), or choose another folder (--out)"
                    )
                before = read_record(record)
                check_same(before, about, f"{self.out} holds a run with")
                more = merge_entries(before, more)
            write_atomically(record, json.dumps({**about, **more}, indent=2).encode())
            yield

    @contextmanager
    def doing(
        self, what: str, total: int, done: int = 0, unit: str = "steps", kept: str = "nothing is kept"
    ) -> Iterator[None]:
        """Shows progress while the block runs, and after Ctrl-C says what is kept.

        :param what: what is being done
        :param total: how much there is to do
        :param done: how much of the total is done already
        :param unit: the unit of the work whose rate is shown
        :param kept: what is kept of a run without a folder
        """
        with self.interruptible(kept), tracked(what, total, done, unit, self.progress) as self.tracker:
            yield

    @contextmanager
    def interruptible(self, kept: str = "nothing is kept") -> Iterator[None]:
        """Says after Ctrl-C in the block what is kept.

        :param kept: what is kept of a run without a folder
        """
        try:
            yield
        except KeyboardInterrupt:
            if self.is_kept:
                there = not self._results or self.has(self._results[0])
                kept = f"--resume goes on from what is in {self.out}" if there else "nothing is kept yet"
            if self.progress:
                say(f"\ninterrupted: {kept}")
            raise

    @property
    def folder(self) -> Path:
        """The folder of a run that has one."""
        assert self.out is not None
        return self.out

    def path(self, name: str) -> Path:
        """Returns the path of a file in the folder."""
        return self.folder / name

    def has(self, name: str) -> bool:
        """Whether a file is in the folder."""
        return self.out is not None and (self.out / name).exists()

    def seconds(self) -> float:
        """Returns the time that the run has taken, with all that it resumed."""
        return self.earlier + time.monotonic() - self._start

    def seed_of(self, *steps: int) -> int:
        """Returns the seed for what follows a step, or a use and a step, of the run."""
        seed = self.seed
        for step in steps:
            seed = seed_of(seed, step)
        return seed


def seed_of(seed: int, step: int) -> int:
    """Returns the seed for what follows a step of a run."""
    # Some libraries take seeds of 31 bits only.
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) % 2**31
