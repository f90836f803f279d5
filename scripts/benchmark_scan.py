"""Times the scan against `ncps` and `torch.nn.LSTM`, and against the least time that the processor allows.

Every row times one kind of work on all of its contestants in turn, in one process with one thread (two where the row
says so), and gives medians. Each timed run follows an untimed run of the same contestant, so that it finds its own code
and data in the caches. Before anything is timed, our outputs and gradients are compared with those of `ncps` with the
same weights, or with the reference scan where `ncps` has no such cell; if one differs by more than 1e-4, nothing is
printed.

The floor is one sigmoid for each existing synapse, solver step, time step and row, 0.2 ns each with AVX-512 and 0.4 ns
with AVX2, and three times that with the backward pass. For NeuralLTC and CfC, whose synapses only multiply, it is
one activation for each neuron and map. On a GPU (`--device cuda`) it is two special functions for each sigmoid, three
times that with the backward pass, 16 a clock on each multiprocessor.

Peak memory is what one forward and backward pass adds to the memory of a process of its own. The largest shape would
need more memory than this machine has with `ncps`: its memory is measured at two short lengths and extrapolated
linearly.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from needed import needed
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ncp_control as nc
from ncp_control.cli.bench import medians
from ncp_control.ops.cpu import library

INPUTS = 17
PLANS = {
    "ncp": nc.AutoNCP(32, 6),
    "acyclic": nc.NCP(
        20, 12, 16, sensory_fanout=20, inter_fanout=12, recurrent_command=0, motor_fanin=12, recurrent_inter=0
    ),
}
FLOOR_NS = {"avx512": 0.2, "avx2": 0.4, "portable": 0.8}


@dataclass
class Arguments:
    """Time the compiled scan against ncps and torch.nn.LSTM.

    Example: python scripts/benchmark_scan.py --figure scan.png --json scan.json
    """

    repeats: int = 15
    """Timed runs of every contestant; the median counts."""

    quick: bool = False
    """Small shapes and few repeats, to see that it works."""

    device: Literal["cpu", "cuda"] = "cpu"
    """cuda times rows of its own on a GPU, against ncps and cuDNN's LSTM."""

    figure: Path | None = None
    """Also time how cost grows with batch, length, neurons and sparsity, and draw it here."""

    json: Path | None = None
    """Also write every number here."""

    memory_of: Annotated[str, tyro.conf.arg(metavar="WHO:BATCH:TIME")] = ""
    """The script itself uses this: print the peak memory of one pass in this process, and stop."""


@dataclass(frozen=True)
class Work:
    """A row of the table."""

    name: str
    cell: str
    batch: int
    time: int
    plan: str
    against: tuple[str, ...]
    backward: bool = True
    threads: int = 1
    target: str = ""
    parallel: bool = False


LONG_WORKS = tuple(
    Work(f"{name}, in pieces", cell, 1, 10_000, plan, ("in one piece",), backward, target="4 x", parallel=True)
    for name, cell, plan in (
        ("DualLTC, 48 neurons without cycles", "dual_ltc", "acyclic"),
        ("DualLTC AutoNCP(32, 6)", "dual_ltc", "ncp"),
        ("LTC AutoNCP(32, 6)", "ltc", "ncp"),
    )
    for backward in (True, False)
)

WORKS = (
    Work("LTC AutoNCP(32, 6)", "ltc", 16, 32, "ncp", ("ncps", "LSTM"), target="60 x ncps, 1 x LSTM"),
    Work("LTC AutoNCP(32, 6)", "ltc", 64, 128, "ncp", ("ncps", "LSTM"), target="40 x ncps, 1.6 x LSTM"),
    Work("LTC AutoNCP(32, 6)", "ltc", 256, 32, "ncp", ("ncps",), target="25 x ncps"),
    Work("LTC dense 32", "ltc", 64, 128, "dense", ("ncps",), target="8 x ncps"),
    Work("NeuralLTC AutoNCP(32, 6)", "neural_ltc", 64, 128, "ncp", ("LSTM",), target="1 x LSTM"),
    Work("CfC AutoNCP(32, 6)", "cfc", 64, 128, "ncp", ("ncps",), target="20 x ncps"),
    Work("DualLTC AutoNCP(32, 6)", "dual_ltc", 64, 128, "ncp", ("LSTM",)),
    Work("LTC AutoNCP(32, 6), one step", "ltc", 1, 1, "ncp", ("ncps", "LSTM"), backward=False, target="0.5 x LSTM"),
    Work("LTC AutoNCP(32, 6)", "ltc", 256, 128, "ncp", ("one thread",), threads=2, target="1.7 x one thread"),
    *LONG_WORKS,
)


GPU_WORKS = (
    Work("LTC dense 32", "ltc", 4096, 128, "dense", ("ncps", "LSTM"), target="40 x ncps, 2 x LSTM"),
    Work("LTC AutoNCP(32, 6)", "ltc", 4096, 128, "ncp", ("ncps", "LSTM")),
    Work("NeuralLTC AutoNCP(32, 6)", "neural_ltc", 4096, 128, "ncp", ("LSTM",)),
    Work("CfC AutoNCP(32, 6)", "cfc", 4096, 128, "ncp", ("ncps", "LSTM")),
    Work("DualLTC AutoNCP(32, 6)", "dual_ltc", 4096, 128, "ncp", ("LSTM",)),
    Work("LTC AutoNCP(32, 6)", "ltc", 64, 128, "ncp", ("ncps", "LSTM")),
    Work("LTC AutoNCP(32, 6), one step", "ltc", 1, 1, "ncp", ("ncps", "LSTM"), backward=False),
    *LONG_WORKS,
)


def peer(cell: str, plan: str) -> torch.nn.Module | None:
    """The `ncps` model for a row, or None where `ncps` has no such cell."""
    with needed():
        import ncps.torch
        import ncps.wirings

    wiring = ncps.wirings.AutoNCP(32, 6) if plan == "ncp" else ncps.wirings.FullyConnected(32)
    if cell == "ltc":
        return ncps.torch.LTC(INPUTS, wiring)
    return ncps.torch.CfC(INPUTS, wiring) if cell == "cfc" else None


def ours(cell: str, plan: str, theirs: torch.nn.Module | None) -> nc.RNN:
    """Our model: an LTC has the peer's own weights, any other cell the same plan (its peer is denser, or missing)."""
    if cell == "ltc" and theirs is not None:
        return nc.from_ncps(theirs)
    return nc.RNN(nc.make_cell(cell.replace("_", ""), INPUTS, PLANS.get(plan, 32)))


def check(work: Work, device: str) -> float:
    """How far our outputs and gradients are from those of the peer or the reference, relative to the largest value."""
    torch.manual_seed(0)
    theirs = peer(work.cell, work.plan)
    model = ours(work.cell, work.plan, theirs)
    if work.cell == "cfc" and theirs is not None:
        model = nc.from_ncps(theirs)
    other = theirs or nc.RNN(model.cell, backend="reference")
    results = []
    for network in (nc.RNN(model.cell, backend="gpu" if device == "cuda" else "cpu"), other):
        inputs = torch.randn(20, 9, INPUTS, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
        outputs = network.to(device)(inputs)[0]
        results.append((outputs.detach(), torch.autograd.grad(outputs.square().sum(), inputs)[0]))
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*results, strict=True))


def run_of(network: torch.nn.Module, work: Work, device: str = "cpu") -> Callable[[], None]:
    """Returns one pass over fixed inputs: forward and backward, or forward alone, which starts from a given state."""
    inputs = torch.randn(work.batch, work.time, INPUTS, generator=torch.Generator().manual_seed(2)).to(device)
    network.to(device)
    if not work.backward:
        state = network(inputs)[1]

        def forward() -> None:
            with torch.no_grad():
                network(inputs, state)

        return forward

    def both() -> None:
        network.zero_grad(set_to_none=True)
        network(inputs)[0].sum().backward()

    return both


def floor_ms(rnn: nc.RNN, batch: int, steps: int, backward: bool, device: str) -> float:
    """The milliseconds that the processor needs for the sigmoids alone."""
    cell, wiring = rnn.cell, rnn.wiring
    unfolds = getattr(cell, "unfolds", 1)
    if isinstance(cell, nc.LTC):
        sigmoids = unfolds * len(wiring.synapses) + len(wiring.sensory)
    else:
        sigmoids = wiring.units * (3 if isinstance(cell, nc.CfC) else 4 if isinstance(cell, nc.DualLTC) else unfolds)
    sigmoids *= batch * steps * (3 if backward else 1)
    if device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        return 2 * sigmoids / (16 * gpu.multi_processor_count * gpu.clock_rate)
    loaded, reason = library.load()
    if loaded is None:
        raise SystemExit(f"there is no compiled scan to time: {reason}")
    return sigmoids * FLOOR_NS[loaded.level] / 1e6


def measure(work: Work, repeats: int, device: str) -> dict[str, Any]:
    """Times one row: the milliseconds of every contestant, and the floor."""
    torch.manual_seed(0)
    theirs = peer(work.cell, work.plan)
    rnn = ours(work.cell, work.plan, theirs)
    if work.parallel:
        rnn = nc.RNN(rnn.cell, parallel=True)
    contestants = {"ours": run_of(rnn, work, device)}
    if "ncps" in work.against and theirs is not None:
        contestants["ncps"] = run_of(theirs, work, device)
    if "LSTM" in work.against:
        contestants["LSTM"] = run_of(torch.nn.LSTM(INPUTS, 32, batch_first=True), work, device)
    if "one thread" in work.against:
        contestants["one thread"] = run_of(rnn, work)
    if "in one piece" in work.against:
        contestants["in one piece"] = run_of(nc.RNN(rnn.cell), work, device)
    if work.time * work.batch == 1:
        repeats *= 20
    times = medians(contestants, repeats, {"ours": work.threads}, device)
    floor = floor_ms(rnn, work.batch, work.time, work.backward, device)
    forward = medians({"ours": run_of(rnn, replace(work, backward=False), device)}, repeats, None, device)["ours"]
    return {**vars(work), "milliseconds": times, "forward": forward, "floor": floor / work.threads}


def peak_memory(who: str, batch: int, steps: int) -> float:
    """The megabytes that one forward and backward pass needs, measured in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", f"{who}:{batch}:{steps}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report_memory(request: str) -> None:
    """Prints the peak memory of the pass that `request` names, in megabytes."""
    with needed():
        import ncps.torch
        import ncps.wirings

    who, batch, steps = request.split(":")
    torch.set_num_threads(1)
    theirs = ncps.torch.LTC(INPUTS, ncps.wirings.AutoNCP(128, 16))
    network = theirs if who == "ncps" else nc.from_ncps(theirs)
    network(torch.randn(2, 2, INPUTS))[0].sum().backward()
    inputs = torch.randn(int(batch), int(steps), INPUTS)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak to what is held now
    before = peak_kilobytes()
    network(inputs)[0].sum().backward()
    print((peak_kilobytes() - before) / 1024)


def peak_kilobytes() -> int:
    """The most kilobytes that this process has held since the peak was last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def measure_memory(batch: int, steps: int) -> dict[str, float]:
    """Peak memory of both at (batch, steps): ours as measured, that of ncps extrapolated from two short lengths."""
    short, longer = 2, 4
    at_short, at_longer = (peak_memory("ncps", batch, length) for length in (short, longer))
    per_step = (at_longer - at_short) / (longer - short)
    return {"ours": peak_memory("ours", batch, steps), "ncps": at_short + per_step * (steps - short)}


def show(rows: list[dict[str, Any]], memory: dict[str, float], console: Console) -> None:
    """Prints the table."""
    table = Table("work (forward + backward)", "batch x time", "ours", "forward", "against", "target", "floor x")
    for row in rows:
        times = row["milliseconds"]
        name = row["name"] if row["backward"] else f"{row['name']}, forward"
        against = []
        for other in row["against"]:
            ratio = times[other] / times["ours"]
            said = f"{ratio:.1f} x faster" if ratio > 2 or other != "LSTM" else f"{1 / ratio:.2f} x its time"
            against.append(f"{other} {times[other]:.3g} ms: {said}")
        spent = f"{times['ours']:.3g} ms"
        table.add_row(
            name + (f", {row['threads']} threads" if row["threads"] > 1 else ""),
            f"{row['batch']} x {row['time']}",
            spent,
            f"{row['forward']:.3g} ms",
            "\n".join(against),
            row["target"],
            f"{times['ours'] / row['floor']:.1f}",
        )
    console.print(table)
    if memory:
        ratio = memory["ncps"] / memory["ours"]
        console.print(
            f"LTC AutoNCP(128, 16), 256 x 256, peak memory of one pass: ours {memory['ours']:.0f} MB, "
            f"ncps {memory['ncps'] / 1024:.0f} GB (extrapolated from 2 and 4 steps): {ratio:.0f} x less (target: 50)"
        )


def growth(repeats: int, device: str) -> dict[str, Any]:
    """Milliseconds of a forward and backward pass as one size grows and the others stay (32 neurons, 64 x 32)."""
    base = {"batch": 64, "time": 32, "neurons": 32, "sparsity": 0.5}
    axes = {
        "batch": (1, 4, 16, 64, 256),
        "time": (4, 16, 64, 256),
        "neurons": (16, 32, 64, 128, 256),
        "sparsity": (0.0, 0.25, 0.5, 0.75, 0.9),
    }
    found: dict[str, Any] = {}
    for axis, values in axes.items():
        lines: dict[str, list[float]] = {"LTC": [], "NeuralLTC": [], "CfC": [], "LSTM": []}
        for value in track(values, description=f"growth with {axis}", transient=True):
            size = {**base, axis: value}
            work = Work("", "", int(size["batch"]), int(size["time"]), "", ())
            units = int(size["neurons"])
            plan = nc.AutoNCP(units, 6, sparsity=float(size["sparsity"]))
            networks = {name: nc.RNN(nc.make_cell(name, INPUTS, plan)) for name in ("LTC", "NeuralLTC", "CfC")}
            runs = {name: run_of(network, work, device) for name, network in networks.items()}
            runs["LSTM"] = run_of(torch.nn.LSTM(INPUTS, units, batch_first=True), work, device)
            for name, milliseconds in medians(runs, repeats, None, device).items():
                lines[name].append(milliseconds)
        found[axis] = {"values": values, "milliseconds": lines}
    return found


def draw(found: dict[str, Any], path: Path, where: str) -> None:
    """Draws one panel for each size."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    styles = {"LTC": ("#0072B2", "o"), "NeuralLTC": ("#56B4E9", "s"), "CfC": ("#009E73", "D"), "LSTM": ("#D55E00", "^")}
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.4), sharey=True, layout="constrained")
    for panel, (axis, line) in zip(panels, found.items(), strict=True):
        for name, milliseconds in line["milliseconds"].items():
            colour, marker = styles[name]
            panel.plot(line["values"], milliseconds, marker=marker, color=colour, label=name)
        panel.set_yscale("log")
        if axis != "sparsity":
            panel.set_xscale("log", base=2)
        panel.set_xlabel(axis)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("forward + backward, ms")
    panels[0].legend(frameon=False)
    figure.suptitle(f"{where}; AutoNCP(32, 6) on 64 sequences of 32 steps, one size varied", fontsize=11)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Checks the results, times every row, and shows them."""
    arguments = tyro.cli(Arguments)
    if arguments.memory_of:
        report_memory(arguments.memory_of)
        return
    if arguments.figure:
        with needed():  # before everything is timed
            import matplotlib  # noqa: F401
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 120)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device to time")
    every = GPU_WORKS if arguments.device == "cuda" else WORKS
    works, repeats = (every[:1], 3) if arguments.quick else (every, arguments.repeats)
    off = {work.name: error for work in works if (error := check(work, arguments.device)) > 1e-4}
    if off:
        raise SystemExit(f"the scan does not agree with its peer, so there is nothing to time: {off}")
    rows = [measure(work, repeats, arguments.device) for work in track(works, description="timing", transient=True)]
    memory = {} if arguments.quick or arguments.device == "cuda" else measure_memory(256, 256)
    where = torch.cuda.get_device_name() if arguments.device == "cuda" else library.load()[1]
    console.print(f"one thread, medians of {repeats}, {where}, torch {torch.__version__}")
    show(rows, memory, console)
    found = growth(3 if arguments.quick else max(3, repeats // 3), arguments.device) if arguments.figure else {}
    if arguments.figure:
        draw(found, arguments.figure, where if arguments.device == "cuda" else "One CPU thread")
        console.print(f"figure: {arguments.figure}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "memory": memory, "growth": found}, indent=2))


if __name__ == "__main__":
    main()
