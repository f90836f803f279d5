"""What to run first on a GPU that this project has never run on: the steps that are most likely to fail come first.

python scripts/first_gpu_run.py [--out runs/first-gpu-run]

Each step is a process of its own with a limit of time, and ends with a line that says how it went. The folder gets
results.json, with all that each step printed, and table.md, after every step anew. The exit code is 0 where every step
is fine, 1 where one is not, and 2 where there is no GPU. It needs a checkout with the tools of its tests (`make venv`).
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import tyro

import ncp_control as nc
from ncp_control.cli.bench import medians
from ncp_control.data import Rollout, Rollouts, Windows
from ncp_control.dynamics import DynamicsModel, FitSettings, fit
from ncp_control.ops.gpu import launch
from ncp_control.ops.gpu.tables import tables_of

ROOT = Path(__file__).parents[1]
FINE, FAILED, LATE, LEFT_OUT = "fine", "failed", "took too long", "left out"
# Warps of a backward kernel, and the registers that a thread of it may have at most.
WARPS = ((1, 168), (1, 255), (2, 168), (2, 255), (4, 128), (4, 168))


@dataclass
class Arguments:
    """Run what should be run first on a GPU, in the order of what is most likely to fail."""

    out: Path = Path("runs/first-gpu-run")
    """The folder for the results."""

    time_warps: bool = False
    """The script itself uses this: time numbers of warps and registers in this process, and stop."""

    time_graphs: bool = False
    """The script itself uses this: time fits with and without CUDA graphs in this process, and stop."""


@dataclass(frozen=True)
class Step:
    """One thing to run.

    :param name: what it shows
    :param command: what to run
    :param limit: its limit of time, in seconds
    :param lacks: why it cannot run here; empty where it can
    """

    name: str
    command: tuple[str, ...]
    limit: float
    lacks: str = ""


@dataclass(frozen=True)
class Result:
    """How a step went.

    :param verdict: fine, failed, took too long, or left out
    :param told: the last line that it printed, or why it was left out
    :param printed: all that it printed
    """

    name: str
    verdict: str
    seconds: float
    told: str
    printed: str


def steps(cards: int, folder: Path) -> list[Step]:
    """All steps, in the order of what is most likely to fail."""
    tool, several = shutil.which("compute-sanitizer"), "" if cards > 1 else "there is one GPU"

    def tests(paths: str, only: str = "") -> tuple[str, ...]:
        chosen = ("-k", only) if only else ()
        return sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *paths.split(), *chosen

    def script(name: str, *more: str, device: str = "cuda") -> tuple[str, ...]:
        return sys.executable, str(ROOT / "scripts" / f"{name}.py"), *more, "--device", device

    agreement, operator, streams = (f"tests/ops/gpu/test_{name}.py" for name in ("agreement", "operator", "streams"))
    checked = (tool or "", "--error-exitcode", "1", *tests(agreement, "every_cell and cuda and f32"))
    warps, graphs = ((sys.executable, __file__, f"--time-{what}") for what in ("warps", "graphs"))
    return [
        Step("every cell against the reference", tests(agreement, "every_cell and cuda"), 900),
        Step("dense CfCs that once did not compile", tests(agreement, "once_did_not"), 600),
        Step("no access out of bounds", checked, 1800, "" if tool else "compute-sanitizer is not installed"),
        Step("compiled, with strided inputs", tests(operator), 600),
        Step("a fit, stopped and resumed", tests("tests/dynamics/test_fitting.py"), 600),
        Step("a fit from CUDA graphs", tests("tests/dynamics/test_captured_step.py"), 600),
        Step("recurrent PPO, stopped and resumed", tests("tests/rl/test_training.py"), 600),
        Step("all other tests on a GPU", tests("tests", "not (every_cell or once_did_not)"), 3600),
        Step("CUDA graphs", tests(streams, "captured"), 300),
        Step("a stream of its own", tests(streams, "stream_of_its_own"), 300),
        Step("the last card", tests(streams, "last_card"), 300, several),
        Step("one fit on several cards, by NCCL", script("benchmark_ranks", "--ranks", str(cards)), 900, several),
        Step("scans against cuDNN's", script("benchmark_scan", "--json", str(folder / "scan.json")), 900),
        Step("growth with each size", script("benchmark_scan", "--quick", "--figure", str(folder / "scan.png")), 900),
        Step("warps and registers", warps, 900),
        Step("fits with and without CUDA graphs", graphs, 900),
        *(Step(f"a fit of {batch} windows, {device}", script("benchmark_fit", "--batch", batch, device=device), 600)
          for batch in ("16", "256") for device in ("cuda", "cpu")),
    ]  # fmt: skip


def run_step(step: Step) -> Result:
    """Runs a step in a process of its own and says how it went."""
    if step.lacks:
        return Result(step.name, LEFT_OUT, 0.0, step.lacks, "")
    begin, late = time.monotonic(), False
    process = subprocess.Popen(
        step.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        printed = process.communicate(timeout=step.limit)[0]
    except subprocess.TimeoutExpired:
        late = True
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
        printed = process.communicate()[0]
    text = printed.decode(errors="replace")
    last = (text.strip().splitlines() or [""])[-1]
    verdict = LATE if late else FAILED if process.returncode else FINE
    return Result(step.name, verdict, round(time.monotonic() - begin, 1), last, text)


def timed(batch: int, warps: int, most: int, device: str, length: int = 128, repeats: int = 9) -> float:
    """Milliseconds of an LTC's forward and backward pass with other settings of the backward kernel.

    :param warps: warps of a Triton program of the backward pass
    :param most: the most registers of a thread of it
    """
    rnn = nc.RNN(nc.LTC(17, nc.AutoNCP(32, 6)), backend="gpu").to(device)
    inputs, program, usual = torch.randn(batch, length, 17, device=device), rnn.cell.program(), launch.registers
    assert program is not None
    made = tables_of(program, 17, 32)._replace(backward_warps=warps)

    def registers(kind: str, warps: int, backwards: bool) -> int:
        return min(most, launch.REGISTERS // warps) if backwards else usual(kind, warps, backwards)

    def both() -> None:
        rnn(inputs)[0].sum().backward()

    with patch.multiple(launch, registers=registers, tables_of=lambda *_: made):
        return medians({"": both}, repeats, None, device)[""]


def step_time(cell: str, batch: int, horizon: int, graph: bool, device: str, epochs: int = 16) -> float:
    """Milliseconds of a step of a fit, to which the validation adds a little: the median of the last four epochs."""
    random = np.random.default_rng(0)
    parts = Rollouts(tuple(Rollout(random.normal(size=(1000, 17))) for _ in range(10))).split()
    settings, ends = FitSettings(epochs=epochs, batch=batch, horizon=horizon), []
    fit(
        DynamicsModel.of(parts.train, cell, 32), parts, settings, device=device, graph=graph, progress=False,
        on_epoch=lambda _: ends.append(time.perf_counter()),
    )  # fmt: skip
    steps_of_epoch = -(-len(Windows(parts.train, settings.length, settings.stride)) // batch)
    return float(np.median(np.diff(ends)[-4:])) * 1000 / steps_of_epoch


def table(results: list[Result]) -> str:
    """The results as a table in Markdown."""
    rows = [f"| {each.name} | {each.verdict} | {each.seconds} s | {each.told.replace('|', '/')} |" for each in results]
    return "\n".join(["| step | verdict | time | it says |", "|---|---|---|---|", *rows]) + "\n"


def main(arguments: Arguments) -> int:
    """Runs all steps and writes the results; returns the exit code."""
    if not torch.cuda.is_available():
        print("There is no GPU that torch can use here, so nothing was run: see `ncp-control doctor`.")
        return 2
    if arguments.time_warps:
        print("| batch | warps | registers at most | ms |\n|---|---|---|---|")
        for batch in (1, 64, 512, 4096):
            for warps, most in WARPS:
                print(f"| {batch} | {warps} | {most} | {timed(batch, warps, most, 'cuda'):.3f} |", flush=True)
        return 0
    if arguments.time_graphs:
        print("| cell | batch | horizon | ms a step | ms a step from a graph |\n|---|---|---|---|---|")
        for cell, batch, horizon in itertools.product(("ltc", "gru"), (16, 64, 256), (1, 8)):
            usual, captured = (step_time(cell, batch, horizon, graph, "cuda") for graph in (False, True))
            print(f"| {cell} | {batch} | {horizon} | {usual:.3f} | {captured:.3f} |", flush=True)
        return 0
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "ncp_control": nc.__version__}
    results: list[Result] = []
    for step in steps(torch.cuda.device_count(), folder):
        result = run_step(step)
        results.append(result)
        print(f"{result.name}: {result.verdict}: {result.told}", flush=True)
        found = {**about, "results": [asdict(each) for each in results]}
        (folder / "results.json").write_text(json.dumps(found, indent=2))
        (folder / "table.md").write_text(table(results))
    print(table(results))
    return int(any(result.verdict in (FAILED, LATE) for result in results))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
