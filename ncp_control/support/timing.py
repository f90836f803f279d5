"""Times functions on a machine that may be busy: they take turns, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(
    contestants: Mapping[str, Callable[[], None]],
    repeats: int,
    threads: Mapping[str, int] | None = None,
    device: str = "cpu",
) -> dict[str, float]:
    """Runs functions in turn and returns the median time of each, in milliseconds.

    Each timed run follows an untimed run of the same function, which loads its code and data into the caches.

    :param contestants: the functions by name
    :param repeats: how many timed runs each function gets
    :param threads: torch's threads by name, by default one; afterwards torch has as many as before
    :param device: "cuda" waits until the GPU has finished
    """
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    before = torch.get_num_threads()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    try:
        for _ in range(repeats):
            for name, run in contestants.items():
                torch.set_num_threads((threads or {}).get(name, 1))
                run()
                wait()
                start = time.perf_counter()
                run()
                wait()
                times[name].append(1e3 * (time.perf_counter() - start))
    finally:
        torch.set_num_threads(before)
    return {name: statistics.median(values) for name, values in times.items()}
