"""Timing that holds on a busy machine: contestants in turn, medians."""

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
    """Median milliseconds of each, run in turn.

    Each timed run follows an untimed one of the same contestant, so that it finds its own code and data in the caches.

    :param repeats: timed runs of every contestant
    :param threads: of torch, by contestant; one where nothing is said, and as many as before when all is done
    :param device: "cuda" waits until a GPU has done what it was given
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
