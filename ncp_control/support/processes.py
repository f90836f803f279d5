"""Worker processes that do not outlive whom they work for."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it has ended, however that ended: nobody waits for its work,
    and somebody else may have gone on with it.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
