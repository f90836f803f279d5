"""What this machine has: devices, threads, memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits


def pick_device(device: str | torch.device) -> torch.device:
    """Returns the device of a name; "auto" is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}: choose cpu, cuda or auto") from None
    if chosen.type not in ("cpu", "cuda"):  # mps has no float64, which scans on the reference take
        raise ValueError(f"nothing here runs on {chosen.type}: choose cpu, cuda or auto")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no GPU that torch can use here: choose device cpu, or auto")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there is no device {chosen}: the last one is cuda:{torch.cuda.device_count() - 1}")
    return chosen


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


CONTAINER = Path("/sys/fs/cgroup/memory.max")


class TooMuchMemory(ValueError):
    """More memory was asked for than this machine has."""


@contextmanager
def bounded_memory(what: str) -> Iterator[None]:
    """Turns a failed allocation of memory in the block into a sentence that says what the memory was for.

    :param what: the beginning of the sentence that refuses it, such as "the recipe's networks and buffers"
    """
    try:
        yield
    except MemoryError as error:
        raise TooMuchMemory(f"{what} need more memory than this machine has free") from error
    except RuntimeError as error:
        if not any(words in str(error) for words in ("allocate memory", "bad_alloc", "out of memory")):
            raise
        raise TooMuchMemory(f"{what} need more memory than this machine has free") from error


def memory_size() -> int:
    """Returns the bytes of free memory of this machine, at most those of the container that this process runs in."""
    size = _kilobytes("/proc/meminfo", "MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        size = min(size, int(CONTAINER.read_text()))
    return size


def peak_memory() -> int:
    """Returns the most bytes of memory that this process has had at once; 0 where the system does not say.

    On Linux `getrusage` would count the memory of the process that started this one, too.
    """
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else _kilobytes("/proc/self/status", "VmHWM") or most * 1024


def _kilobytes(file: str, name: str) -> int:
    """Returns the bytes in a line of a file of Linux, such as `VmData:  512 kB`; 0 without that line."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(file).read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
