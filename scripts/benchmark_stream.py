"""Fits a model to a Minari dataset of random numbers, read into memory and read from disk as needed, in turn.

python scripts/benchmark_stream.py [--steps 10000000] [--cold]

Each fit is a process of its own, so that its peak memory counts for itself. Both fits have the same seed; at the end
their weights are compared. The dataset lies in a temporary folder, by default where Python puts temporary files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from needed import needed

from ncp_control.base.machine import peak_memory
from ncp_control.base.tensors import hash_of_tensors
from ncp_control.data import Rollouts
from ncp_control.dynamics import DynamicsModel, FitSettings, fit
from ncp_control.dynamics.fitting import make_seeded

OBSERVATIONS, ACTIONS, EPISODE = 17, 6, 1000  # sizes of the half-cheetah's


@dataclass
class Arguments:
    """Compare fits of 32 LTC neurons to data in memory and on disk."""

    how: Annotated[str, tyro.conf.Positional] = "both"
    """both; or memory or stream, which do one fit of the dataset in the folder and print JSON."""

    folder: Path | None = None
    """The folder for the dataset, which is kept there; by default a temporary one."""

    steps: int = 10_000_000
    """Number of steps in all."""

    stride: int = 100
    """Steps from one training window to the next."""

    batch: int = 16
    """Number of windows in a batch."""

    repeats: int = 1
    """How often each fit is made, in turn; the fastest counts."""

    cold: bool = False
    """Make the system forget the streamed data before the fit, so that it is really read from the disk."""


def main(arguments: Arguments) -> None:
    """Makes the dataset, fits both and prints the result; or does one of the fits."""
    if arguments.how != "both":
        if arguments.folder is None:
            raise ValueError("name the folder of the dataset with --folder")
        print(json.dumps(one_fit(arguments, arguments.folder)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        begin = time.perf_counter()
        if not (folder / "data" / "metadata.json").exists():
            write_random(folder, arguments.steps)
        size = (folder / "data" / "main_data.hdf5").stat().st_size
        print(f"{arguments.steps:,} steps, {size / 2**20:,.0f} MiB, made in {time.perf_counter() - begin:.0f} s")
        found: dict[str, list[dict[str, Any]]] = {"memory": [], "stream": []}
        for _ in range(arguments.repeats):
            for how, fits in found.items():
                fits.append(in_a_process(arguments, how, folder))
                print(how, json.dumps(fits[-1]), flush=True)
    best = {how: min(fits, key=lambda one: one["seconds"]) for how, fits in found.items()}
    ratio, own = (best["memory"][key] / best["stream"][key] for key in ("seconds", "processor"))
    same = len({one["weights"] for fits in found.values() for one in fits}) == 1
    sizes = {how: one["peak_memory"] / 2**20 for how, one in best.items()}
    print(
        f"streamed: {ratio:.2f} of the throughput in memory ({own:.2f} by processor time), at most "
        f"{sizes['stream']:,.0f} MiB against {sizes['memory']:,.0f}; the weights are "
        f"{'the same' if same else 'different'}"
    )


def in_a_process(arguments: Arguments, how: str, folder: Path) -> dict[str, Any]:
    """Does one fit in a process of its own, and returns what it prints."""
    words = ["--folder", str(folder), "--stride", str(arguments.stride), "--batch", str(arguments.batch)]
    command = [sys.executable, __file__, how, *words, *(["--cold"] if arguments.cold else [])]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def one_fit(arguments: Arguments, folder: Path) -> dict[str, Any]:
    """Fits one epoch; returns the seconds and the processor's seconds that it took, how long it took to read the data,
    and the peak memory in bytes.
    """
    torch.set_num_threads(1)
    begin = time.perf_counter()
    rollouts = Rollouts.stream(folder, folder) if arguments.how == "stream" else Rollouts.load(folder)
    parts = rollouts.split()
    del rollouts
    model = make_seeded(lambda: DynamicsModel.of(parts.train, "ltc", 32, reads="observations+actions"), 0)
    read = time.perf_counter() - begin
    if arguments.cold and arguments.how == "stream":
        for array in (parts.train[0].observations, parts.train[0].actions):
            forget(array)
    settings = FitSettings(epochs=1, stride=arguments.stride, batch=arguments.batch)
    computed = time.process_time()
    result = fit(model, parts, settings, progress=False)
    computed = time.process_time() - computed
    windows = sum((rollout.steps - settings.length) // arguments.stride + 1 for rollout in parts.train)
    return {
        "seconds": result.seconds, "processor": computed, "reading": read, "windows": windows,
        "peak_memory": peak_memory(), "weights": hash_of_tensors(model.state_dict())[:12],
    }  # fmt: skip


def forget(array: Any) -> None:
    """Makes the system forget what it remembers of a column's file."""
    number = array.column._file.fileno()
    os.fsync(number)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)


def write_random(folder: Path, steps: int) -> None:
    """Writes a dataset of random numbers, as Minari's own writer lays it out."""
    with needed():
        from gymnasium.spaces import Box
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_storage import MinariStorage

    random = np.random.default_rng(0)

    def episodes() -> Iterator[EpisodeBuffer]:
        for k in range(steps // EPISODE):
            yield EpisodeBuffer(
                id=k,
                observations=random.normal(size=(EPISODE + 1, OBSERVATIONS)),
                actions=random.uniform(-1, 1, (EPISODE, ACTIONS)).astype(np.float32),
                rewards=random.normal(size=EPISODE),
                terminations=np.zeros(EPISODE, bool),
                truncations=np.arange(EPISODE) == EPISODE - 1,
            )

    (folder / "data").mkdir(parents=True, exist_ok=True)
    storage = MinariStorage.new(
        folder / "data", Box(-np.inf, np.inf, (OBSERVATIONS,), np.float64), Box(-1, 1, (ACTIONS,), np.float32)
    )
    storage.update_episodes(episodes())
    storage.update_metadata({"dataset_id": "random/large-v0", "minari_version": "0.5.4"})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
