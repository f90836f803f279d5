"""The device that torch computes on, by name, and the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


def pick_device(device: str | torch.device) -> torch.device:
    """Returns the device of a name; "auto" is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}: choose cpu, cuda or auto") from None
    if found.type not in ("cpu", "cuda"):  # mps has no float64, which scans on the reference take
        raise ValueError(f"nothing here runs on {found.type}: choose cpu, cuda or auto")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no GPU that torch can use here: choose device cpu, or auto")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there is no device {found}: the last one is cuda:{torch.cuda.device_count() - 1}")
    return found


def use_threads(threads: int) -> None:
    """Sets how many threads torch computes with from now on."""
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Makes torch and NumPy's products of matrices use one thread each, which is enough for a small policy.

    More threads wait for each other longer than they compute, and several processes with two each are slower than one.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)
