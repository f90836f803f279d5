"""Worker processes, which end with the process that started them, and the jobs that they compute.

A job is a function by its name, its arguments, and the folder that its files are in. A place, such as `Processes`, runs
jobs and tells what happens to them. Each job is resumable by itself: one that was cut short is run again with the same
arguments, and continues from its files.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import torch


def core_count() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_context() -> Any:
    """Returns the context of `multiprocessing` that starts workers: fork where it is possible, otherwise spawn.

    A forked process need not import anything again, and nothing has to be pickled for it, but it cannot use CUDA.
    """
    forks = "fork" in multiprocessing.get_all_start_methods() and not torch.cuda.is_initialized()
    return multiprocessing.get_context("fork" if forks else "spawn")


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Puts off Ctrl-C in this thread while the block runs, and in every process that is started in the block.

    Such a process calls `leave_interrupts_to_parent`; until then no Ctrl-C can end it with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_interrupts_to_parent() -> None:
    """Ignores Ctrl-C in this worker process, which the terminal sends to the parent too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has the parent's handler
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def end_with_parent() -> None:
    """Ends this process as soon as the process that started it has ended, in whatever way.

    Nobody waits for its work any more, and another run may have begun to do the same work again.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def how_it_ended(code: int | None) -> str:
    """Returns in words how a process ended.

    :param code: its exit code, minus the number of the signal that ended it
    """
    if code is None or code >= 0:
        return "ended" if code is None else f"ended with the exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}{', perhaps because memory ran out' * (name == 'SIGKILL')}"


def _watch(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)  # without the handlers of Python, which could wait for the lost parent


Report = Callable[[int, int, str], None]  # takes what is done, of what total, and a note
INPUTS = "inputs"  # the folder, in that of the jobs, of what jobs read
SECONDS_BETWEEN_REPORTS = 0.5
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_END = 10.0


@dataclass(frozen=True)
class Job:
    """A piece of work.

    :param name: its name, which no other job has
    :param function: a function that can be imported everywhere, `module:name`. It takes the arguments and a `Report`,
        runs in the folder in which all jobs have their files, and returns a value that can be pickled
    :param arguments: the function's arguments
    :param reads: files and folders that the job reads, relative to that folder
    :param writes: files and folders that the job writes
    """

    name: str
    function: str
    arguments: dict[str, Any]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """What happened to a job.

    :param job: the job's name
    :param kind: "progress", "done" or "failed"
    :param value: what the job returned, or the exception that it raised
    :param progress: what is done, of what total
    :param note: a note of the job
    """

    job: str
    kind: str
    value: Any = None
    progress: tuple[int, int] = (0, 0)
    note: str = ""


class LostError(ChildProcessError):
    """The process that ran a job ended before the job did."""


class JobPlace(Protocol):
    """Where jobs run."""

    count: int

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        """Runs jobs, and tells what happens to them, until all are done or have failed. Closing it ends all jobs.

        :param jobs: each is taken when there is room for it, so that a job may depend on what was told before
        :param root: the folder in which all jobs have their files
        """
        ...

    def cancel(self, name: str) -> None:
        """Ends a job that runs; nothing more is told of it."""
        ...


def compute(job: Job, root: Path, report: Report) -> Any:
    """Computes a job in this process, which works in `root` meanwhile, and returns what it returns.

    A job that calls `sys.exit` fails, and does not end the process.
    """
    module, _, name = job.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    before = Path.cwd()
    os.chdir(root)
    try:
        return function(**job.arguments, report=report)
    except SystemExit as error:
        raise RuntimeError(f"it ended with the exit code {error.code}") from error
    finally:
        os.chdir(before)


class Throttled:
    """A `Report` that passes on one report in half a second, and all that have a note.

    :param send: takes the tuple of a report
    """

    def __init__(self, send: Callable[[tuple[int, int, str]], Any]) -> None:
        self.send, self.last = send, 0.0

    def __call__(self, done: int, total: int, note: str = "") -> None:
        if note or time.monotonic() - self.last >= SECONDS_BETWEEN_REPORTS:
            self.last = time.monotonic()
            self.send((done, total, note))


class _Worker:
    """A process that computes one job after another."""

    def __init__(self, context: Any, root: Path, threads: int) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, str(root), threads), daemon=False)
        self.job: Job | None = None
        with interrupts_later():  # Ctrl-C is for the process that started this one
            self.process.start()
        theirs.close()  # or the end of the process would never show at this end of the pipe

    def begin(self, job: Job) -> bool:
        """Lets the process compute a job; returns False if the process has ended."""
        try:
            self.pipe.send(job)
        except OSError:
            return False
        self.job = job
        return True

    def stop(self) -> None:
        """Asks the process to end: at once if it computes a job."""
        with contextlib.suppress(OSError):
            self.pipe.close()
        if self.job is not None:
            self.process.terminate()

    def end(self) -> None:
        """Ends the process and waits for its end."""
        self.stop()
        self.process.join(SECONDS_TO_END)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@dataclass
class Processes:
    """Runs jobs in processes of this machine, each of which has one thread of torch unless `threads` says otherwise.

    :param count: the number of processes; by default one for each core
    :param threads: threads of torch in each process
    """

    count: int = field(default_factory=core_count)
    threads: int = 1
    _workers: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"workers must be at least 1, got {self.count}")
        if getattr(multiprocessing.current_process(), "_inheriting", False):  # set while a worker imports the program
            raise RuntimeError(
                "a worker process imports this program and would begin its work again: put what the program does "
                'below the line  if __name__ == "__main__":'
            )

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        """Runs jobs; see `JobPlace`."""
        context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads and locks in any state
        waiting = iter(jobs)
        self._workers = []
        try:
            while True:
                while len(self._busy()) < self.count and (job := next(waiting, None)) is not None:
                    while not self._free_worker(context, root).begin(job):
                        pass
                if not self._busy():
                    return
                yield from self._heard()
        finally:
            for worker in self._workers:
                worker.stop()
            for worker in self._workers:
                worker.end()
            self._workers = []

    def cancel(self, name: str) -> None:
        """Ends a job; see `JobPlace`."""
        for worker in list(self._workers):
            if worker.job is not None and worker.job.name == name:
                self._workers.remove(worker)
                worker.end()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _free_worker(self, context: Any, root: Path) -> _Worker:
        """Returns a worker without a job, perhaps a new one; those that were killed are forgotten."""
        for worker in [worker for worker in self._workers if worker.job is None]:
            if worker.process.is_alive():
                return worker
            self._workers.remove(worker)
            worker.end()
        self._workers.append(_Worker(context, root, self.threads))
        return self._workers[-1]

    def _heard(self) -> Iterator[Event]:
        """Waits a moment, and tells what the workers have sent."""
        pipes = {worker.pipe: worker for worker in self._busy()}
        ready = wait(list(pipes), SECONDS_BETWEEN_LOOKS)
        # The pipe of a process that was killed stays open as long as a process that it had started runs.
        for pipe in ready or [pipe for pipe, worker in pipes.items() if not worker.process.is_alive()]:
            worker = pipes[pipe]
            if worker not in self._workers or worker.job is None:
                continue  # it was cancelled while an event was looked at
            name = worker.job.name
            try:
                if not worker.pipe.poll():
                    raise EOFError
                kind, value = worker.pipe.recv()
            except (EOFError, OSError):
                self._workers.remove(worker)
                worker.job = None
                worker.end()
                yield Event(name, "failed", _lost(worker.process.exitcode))
                continue
            if kind == "progress":
                yield Event(name, kind, progress=value[:2], note=value[2])
            else:
                worker.job = None
                yield Event(name, kind, value)


def _lost(code: int | None) -> LostError:
    """Says how a process ended."""
    told = how_it_ended(code)
    return LostError(f"its process {told}{': resume with fewer workers' * ('memory' in told)}")


def _work(pipe: Connection, root: str, threads: int) -> None:
    """Computes the jobs that come through a pipe until it is closed."""
    leave_interrupts_to_parent()
    end_with_parent()
    import torch

    torch.set_num_threads(threads)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            value = compute(job, Path(root), Throttled(lambda said: pipe.send(("progress", said))))
            pipe.send(("done", value))
        except Exception as error:
            pipe.send(("failed", portable(error)))


def portable(error: Exception) -> Exception:
    """Returns the error, or a RuntimeError with its text if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))  # some errors can be packed and not unpacked
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def bring(subject: str, root: Path) -> str:
    """Links a file or a folder that jobs read into their folder, and returns its path there.

    :param subject: the path; any other text is returned as it is
    :param root: the folder of the jobs
    """
    path = Path(subject)
    if not path.exists():
        return subject
    path = path.resolve()
    link = root / INPUTS / path.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists():
        if not link.samefile(path):
            raise ValueError(f"{link} is another file than {path}: give one of them another name")
    else:
        link.unlink(missing_ok=True)  # what it led to has moved
        link.symlink_to(path)
    return f"{INPUTS}/{path.name}"
