"""Worker processes: how they are started, and how they end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    os._exit(1)
