"""Times a fit by one process and by several that share it, in turn, and compares their weights.

python scripts/benchmark_ranks.py [--ranks 2] [--batch 64]

Every fit is `ncp-control fit` of 32 LTC neurons to random traces, one thread a process. The machine needs as many idle
cores as processes. A batch of 16 windows is one vector of the CPU's kernel, so that smaller shares are not faster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from ncp_control.data import Rollout
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import load_model


@dataclass
class Arguments:
    """Compare a fit by one process with one that several processes share."""

    ranks: int = 2
    """Number of processes that share the fit."""

    batch: int = 64
    """Number of windows in a batch."""

    epochs: int = 3
    """Number of passes over the training windows."""

    repeats: int = 3
    """How often each fit is made, in turn; the medians are compared."""

    traces: int = 50
    """Number of random traces of 1000 steps, 17 observations and 6 actions; two fifths are for training."""

    device: str = "cpu"
    """cpu, or cuda with a GPU for each process."""


def main(arguments: Arguments) -> None:
    """Makes the traces, fits in turn and prints the result."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_traces(folder / "data", arguments.traces)
        counts = (1, arguments.ranks)
        found: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
        for repeat in range(arguments.repeats):
            for count in counts:
                out = folder / f"by{count}-{repeat}"
                found[count].append(one_fit(arguments, count, folder / "data", out))
                print(count, json.dumps(found[count][-1]), flush=True)
        one, several = (weights(folder / f"by{count}-0" / "best.safetensors") for count in counts)
    times = [statistics.median(fit["seconds"] for fit in found[count]) for count in counts]
    print(
        f"batches of {arguments.batch}: {times[0]:.2f} s by one process, {times[1]:.2f} s by {arguments.ranks}: "
        f"{times[0] / times[1]:.2f} times as fast; weights differ by {float((one - several).abs().max()):.1e} at most"
    )


def one_fit(arguments: Arguments, count: int, data: Path, out: Path) -> dict[str, Any]:
    """Fits once, and returns what the command tells as JSON."""
    launcher = [sys.executable]
    if count > 1:
        launcher += ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "--standalone"]
    words = ["fit", str(data), "--actions", "--out", str(out), "--device", arguments.device, "--json"]
    words += ["--batch", str(arguments.batch), "--epochs", str(arguments.epochs)]
    done = subprocess.run(
        [*launcher, "-m", "ncp_control.cli", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {key: found[key] for key in ("seconds", "test_mse", "peak_memory")}


def weights(path: Path) -> torch.Tensor:
    """Returns all weights of a model as one vector."""
    return torch.cat([value.detach().reshape(-1) for value in load_model(path).parameters()])


def write_traces(folder: Path, count: int) -> None:
    """Writes traces of random numbers."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for k in range(count):
        rollout = Rollout(random.normal(size=(1001, 17)), actions=random.uniform(-1, 1, (1000, 6)))
        write_trace(rollout, folder / f"trace{k:04d}.npz", durable=False)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
