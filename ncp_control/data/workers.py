"""Collecting groups of rollouts in several processes."""

from __future__ import annotations

import signal
from pathlib import Path
from queue import Empty
from typing import Any

from ncp_control.base.machine import one_thread
from ncp_control.base.processes import end_with_parent, portable, worker_context
from ncp_control.data.batch_policies import BatchPolicy
from ncp_control.data.collection import CollectionPlan
from ncp_control.data.groups import Report, collect_groups


def in_processes(
    groups: list[range], plan: CollectionPlan, policy: BatchPolicy, folder: Path, report: Report, workers: int
) -> None:
    """Collects groups in worker processes, each of which takes the next group when it is free."""
    context = worker_context()  # a fork need not pickle the policy
    waiting, reports = context.Queue(), context.Queue()
    for group in [*groups, *[None] * workers]:
        waiting.put(group)
    started = [
        context.Process(target=_work, args=(waiting, reports, plan, policy, folder), daemon=True)
        for _ in range(workers)
    ]
    try:
        for process in started:
            process.start()
        busy = workers
        while busy:
            try:
                message = reports.get(timeout=1.0)
            except Empty:
                lost = [process.exitcode for process in started if process.exitcode not in (None, 0)]
                if lost:
                    raise ChildProcessError(f"a worker process ended with code {lost[0]}") from None
                continue
            if message is None:
                busy -= 1
            elif isinstance(message, BaseException):
                raise message
            else:
                report(*message)
    finally:
        for process in started:
            if process.is_alive() and process.pid is not None:
                process.terminate()
            if process.pid is not None:
                process.join()


def _work(waiting: Any, reports: Any, plan: CollectionPlan, policy: BatchPolicy, folder: Path) -> None:
    """Collects groups in a worker process until none is left. The parent process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()

    def report(rollouts: int, steps: int) -> None:
        reports.put((rollouts, steps))

    try:
        with one_thread():
            collect_groups(iter(waiting.get, None), plan, policy, folder, report)
        reports.put(None)
    except Exception as error:
        reports.put(portable(error))
