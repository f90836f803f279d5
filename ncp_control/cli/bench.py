"""`ncp-control bench`: how fast circuits train and act on this machine."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PEER = "torch.nn.LSTM"


@dataclass
class Arguments:
    """Time a training pass (forward and backward over a batch of sequences) and one acting step of every cell.

    Each cell takes turns with a torch.nn.LSTM of as many units, on one thread; the table shows medians.

    Example: ncp-control bench --units 64 --batch 16 --time 32
    """

    units: int = 32
    """Neurons of every cell."""

    inputs: int = 17
    """Numbers in an observation."""

    batch: int = 64
    """Sequences in a training pass."""

    time: int = 128
    """Steps in a sequence."""

    repeats: int = 7
    """Timed runs of every cell, of which the median is shown."""

    device: str = "cpu"
    """The device: cpu, cuda, or auto, which takes a GPU if there is one."""

    json: bool = False
    """Print one JSON object instead of the table."""


def run(arguments: Arguments) -> int:
    """Measures, and prints the times."""
    for name in ("units", "inputs", "batch", "time", "repeats"):
        if getattr(arguments, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(arguments, name)}")
    result = measure(arguments)
    if arguments.json:
        print(json.dumps(result))
    else:
        show(arguments, result)
    return 0


def measure(arguments: Arguments) -> dict[str, Any]:
    """Times every cell, and says which backend ran its scan."""
    import torch

    from ncp_control.base.machine import pick_device
    from ncp_control.base.progress import tracked
    from ncp_control.neurons import make_cell
    from ncp_control.neurons.named import CELLS
    from ncp_control.ops import explain_backends
    from ncp_control.rnn import RNN
    from ncp_control.wiring import AutoNCP

    device = pick_device(arguments.device)
    torch.manual_seed(0)
    inputs = torch.randn(arguments.batch, arguments.time, arguments.inputs, device=device)
    single = torch.randn(1, 1, arguments.inputs, device=device)
    peer = torch.nn.LSTM(arguments.inputs, arguments.units, batch_first=True).to(device)
    plans: list[tuple[str, Any]] = [(name, arguments.units) for name in (cell.__name__ for cell in CELLS)]
    contestants = [("LTC, AutoNCP", AutoNCP(arguments.units, max(arguments.units // 5, 1))), *plans]
    rows: list[dict[str, Any]] = []
    with tracked("cells", total=len(contestants), shown=sys.stderr.isatty()) as progress:
        for name, plan in contestants:
            rnn = RNN(make_cell(name.partition(",")[0], arguments.inputs, plan)).to(device)
            training = medians(
                {"own": both(rnn, inputs), PEER: both(peer, inputs)}, arguments.repeats, device=device.type
            )
            # a step is so short that its times scatter, so more of them are taken
            acting = medians(
                {"own": forward(rnn, single), PEER: forward(peer, single)}, 20 * arguments.repeats, device=device.type
            )
            ran_on = next(backend for backend, (able, _) in explain_backends(rnn.cell, inputs).items() if able)
            row = {"cell": name, "backend": ran_on, "parameters": sum(p.numel() for p in rnn.parameters())}
            row |= {"train_ms": training["own"], "train_ratio": training["own"] / training[PEER]}
            rows.append({**row, "act_ms": acting["own"], "act_ratio": acting["own"] / acting[PEER]})
            progress.advance(1, note=name)
    steps = arguments.batch * arguments.time
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu, one thread",
        "torch": torch.__version__,
        "steps": steps,
        "rows": [{**row, "steps_per_second": 1e3 * steps / row["train_ms"]} for row in rows],
    }


def both(network: Any, inputs: Any) -> Callable[[], None]:
    """Returns a forward and a backward pass of `network` over `inputs`."""

    def work() -> None:
        network.zero_grad(set_to_none=True)
        network(inputs)[0].sum().backward()

    return work


def forward(network: Any, inputs: Any) -> Callable[[], None]:
    """Returns a forward pass of `network` over `inputs` that starts from a given state."""
    import torch

    with torch.no_grad():
        state = network(inputs)[1]

    def work() -> None:
        with torch.no_grad():
            network(inputs, state)

    return work


def show(arguments: Arguments, result: dict[str, Any]) -> None:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{arguments.units} neurons, {arguments.batch} x {arguments.time} steps, {result['device']}")
    table.add_column("cell")
    table.add_column("scan")
    for column in ("parameters", "training pass", "steps/s", "x LSTM's", "acting step", "x LSTM's"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        table.add_row(
            row["cell"], row["backend"], f"{row['parameters']:,}", f"{row['train_ms']:.3g} ms",
            f"{row['steps_per_second']:,.0f}", f"{row['train_ratio']:.2f}", f"{row['act_ms']:.3g} ms",
            f"{row['act_ratio']:.2f}",
        )  # fmt: skip
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    print(f"x LSTM's: the time divided by that of {PEER}; an acting step starts from the state of the step before.")


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
