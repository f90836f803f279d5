"""Places that run jobs in the test's own process, or in processes that are killed at a chosen point."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ncp_control.base.processes import Event, Job, Processes, compute, portable


@dataclass
class Here:
    """Runs jobs one after another in this process, and notes which; it stops before a job if it is told to."""

    stop_before: int | None = None
    count: int = 1
    ran: list[str] = field(default_factory=list)

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        for number, job in enumerate(jobs):
            if number == self.stop_before:
                raise KeyboardInterrupt
            self.ran.append(job.name)
            told: list[Event] = []

            def report(done: int, total: int, note: str, name: str = job.name, told: list[Event] = told) -> None:
                told.append(Event(name, "progress", progress=(done, total), note=note))

            try:
                last = Event(job.name, "done", compute(job, root, report))
            except Exception as error:
                last = Event(job.name, "failed", portable(error))
            yield from told
            yield last

    def cancel(self, name: str) -> None:
        raise AssertionError(f"nobody cancels a job here, and not {name}")


@dataclass
class Deadly:
    """Runs jobs in two processes, each of which is killed before it finishes one file too many with a name.

    :param file: a pattern of names
    :param passes: how many such files each process finishes before
    """

    file: str
    passes: int
    count: int = 2

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        how = {"file": self.file, "passes": self.passes}
        deadly = (Job(job.name, "helpers.job_functions:killed_before", {**how, "work": job}) for job in jobs)
        with closing(Processes(self.count).run(deadly, root)) as events:
            yield from events

    def cancel(self, name: str) -> None:
        raise AssertionError(f"nobody cancels a job here, and not {name}")
