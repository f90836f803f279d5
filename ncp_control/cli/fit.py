"""`ncp-control fit`: fits a model of the dynamics to rollouts."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command
from ncp_control.dynamics.settings import FitSettings
from ncp_control.neurons.catalogue import words

if TYPE_CHECKING:
    from ncp_control.base.ranks import Ranks
    from ncp_control.data import Rollouts

SELDOM = (
    "set", "graph", "stream", "threads", "length", "stride", "schedule", "weight_decay", "max_grad_norm", "robust",
    "average", "horizon", "forced", "patience",
)  # fmt: skip

WHEN = {"auto": None, "yes": True, "no": False}


@dataclass
class Arguments:
    """Fit a model that predicts the next observation, or a class or numbers for each row of a table. Under torchrun,
    all processes share the fit.

    Example: ncp-control fit ./cheetah-v0 --actions --cell neuralltc --units 64 --out runs/cheetah
    """

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA ...")]
    """Minari ids or folders of traces, which are joined, or one table, such as FILE.csv:time=COLUMN,group=COLUMN (and
    predict=A+B, label=COLUMN or value=A+B)."""

    cell: Annotated[str, tyro.conf.arg(help=f"One of {words()}.")] = "ltc"

    units: int = 32
    """Number of neurons, fully connected."""

    wiring: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """A plan such as "AutoNCP(32, 8)" instead of all synapses."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = ()
    """Settings of the cell, such as backbone=[64] of cfc or unfolds=3 of ltc."""

    actions: bool = False
    """Read the actions as well as the observations."""

    residual: bool = False
    """Predict how the observation changes, not what it is."""

    members: int = 1
    """Fit an ensemble with this many members."""

    seed: int = 0
    """Random seed; the same seed gives the same result."""

    out: Path | None = None
    """The folder for this fit; by default runs/fit-CELL-sSEED."""

    resume: bool = False
    """Continue the fit in the folder, or start it there."""

    device: str = "auto"
    """The device: cpu, cuda, or auto, which takes a GPU if there is one."""

    graph: Annotated[str, tyro.conf.arg(metavar="WHEN")] = "auto"
    """Launch the kernels of a step together, from a CUDA graph, which makes small batches up to ten times as fast: yes,
    no, or auto, which does so on a GPU where a step can be captured."""

    stream: Annotated[str, tyro.conf.arg(metavar="WHEN")] = "auto"
    """yes: copy the data to a temporary file beside the fit's folder and read each window when it is needed; no: read
    all data into memory; auto: yes for data of more than a quarter of the free memory. The weights are the same."""

    threads: int = 1
    """Number of threads for torch; small networks gain little from more than one."""

    json: bool = False
    """Print one JSON object last."""

    settings: Annotated[FitSettings, tyro.conf.arg(name="")] = field(default_factory=FitSettings)


def run(arguments: Arguments) -> int:
    """Fits a model and prints the result; of several processes, the first one prints."""
    from ncp_control.base.ranks import LostRankError, process_numbers
    from ncp_control.cli import INTERRUPTED, REFUSED

    try:
        summary, text = outcome(arguments, typed_command())
    except (ValueError, OSError, KeyboardInterrupt) as error:
        if process_numbers().rank == 0 or (isinstance(error, LostRankError) and not error.reason):
            raise
        # the first process says what is wrong
        raise SystemExit(INTERRUPTED if isinstance(error, KeyboardInterrupt) else REFUSED) from None
    if process_numbers().rank == 0:
        print(json.dumps(summary) if arguments.json else text)
    return 0


def outcome(arguments: Arguments, command: str) -> tuple[dict[str, Any], str]:
    """Fits a model; returns the result as JSON values and in words.

    :param command: kept in the record
    """
    from ncp_control.base.machine import pick_device, use_threads
    from ncp_control.base.ranks import joined

    for option, given in (("--stream", arguments.stream), ("--graph", arguments.graph)):
        if given not in WHEN:
            raise ValueError(f"{option} is auto, yes or no, not {given!r}")
    use_threads(arguments.threads)
    from ncp_control.series.tables import is_series

    series = [source for source in arguments.data if is_series(source)]
    if series and len(arguments.data) > 1:
        raise ValueError(f"{series[0]} is a table with labels, values or empty cells: fit it alone")
    if series:
        from ncp_control.cli import fit_series

        return fit_series.outcome(arguments, command)
    with joined(pick_device(arguments.device)) as ranks:
        return outcome_of_ranks(arguments, command, ranks)


def outcome_of_ranks(arguments: Arguments, command: str, ranks: Ranks) -> tuple[dict[str, Any], str]:
    """Does what `outcome` says, as one of the processes that share the fit."""
    from ncp_control.base.machine import peak_memory
    from ncp_control.cli.arguments import cell_settings
    from ncp_control.data import Split
    from ncp_control.dynamics import DynamicsModel, Simulator, fit, one_step_error
    from ncp_control.dynamics.fitting import fit_ensemble, make_seeded
    from ncp_control.dynamics.model import READS
    from ncp_control.runs.run import BEST
    from ncp_control.wiring.plan_text import parse_plan

    if arguments.members < 1:
        raise ValueError(f"members must be at least 1, got {arguments.members}")
    settings = arguments.settings
    out = arguments.out or Path("runs") / f"fit-{arguments.cell}-s{arguments.seed}"
    parts = Split.joined([fitted.split() for fitted in read(arguments, out, ranks)])
    wiring = arguments.units if arguments.wiring is None else parse_plan(arguments.wiring)
    changes = cell_settings(arguments.set)

    def make() -> DynamicsModel:
        reads = READS[arguments.actions]
        return DynamicsModel.of(
            parts.train, arguments.cell, wiring, reads=reads, residual=arguments.residual, settings=changes
        )

    common: dict[str, Any] = {
        "seed": arguments.seed, "out": out, "resume": arguments.resume, "device": arguments.device,
        "graph": WHEN[arguments.graph], "command": command,
        "note": {"data": shlex.join(arguments.data), "command": command},
    }  # fmt: skip
    model: Simulator
    if arguments.members > 1:
        model, fits = fit_ensemble(make, parts, settings, arguments.members, **common)
    else:
        model = make_seeded(make, arguments.seed)
        fits = [fit(model, parts, settings, **common)]
    length = min(settings.length, min(rollout.steps for rollout in parts.test))
    summary: dict[str, Any] = {
        "out": str(out),
        "test_mse": one_step_error(model, parts.test, length, ranks=ranks),
        "test_normalised_mse": one_step_error(model, parts.test, length, scale=model.std, ranks=ranks),
        "valid_mse": sum(fitted.best[1] for fitted in fits if fitted.best) / len(fits),
        "epochs": sum(len(fitted.curve) for fitted in fits),
        "best_epoch": [fitted.best[0] for fitted in fits if fitted.best],
        "seconds": sum(fitted.seconds for fitted in fits),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak_memory": ranks.gather(peak_memory()),
    }
    evaluate = shlex.join(["ncp-control", "evaluate", str(out / BEST), "--data", arguments.data[0]])
    sizes = " and ".join(f"{size / 2**20:,.0f}" for size in summary["peak_memory"])
    memory = f"{ranks.count} processes, with at most {sizes} MiB of memory\n" if ranks.count > 1 else ""
    return summary, (
        f"{arguments.cell}, {summary['parameters']:,} parameters, {summary['epochs']} epochs in "
        f"{summary['seconds'] / 60:.1f} minutes\n"
        f"mean squared error of the next observation on the test rollouts: {summary['test_mse']:.4g} "
        f"(over the variances in training {summary['test_normalised_mse']:.4g})\n"
        f"{memory}written to {out}\n"
        f"evaluate it with:  {evaluate}"
    )


def read(arguments: Arguments, out: Path, ranks: Ranks) -> list[Rollouts]:
    """Reads the rollouts of each source into memory, or leaves them on disk.

    :param out: the fit's folder, beside which there is room
    """
    from ncp_control.base.progress import say
    from ncp_control.data import Rollouts
    from ncp_control.data.streaming import is_large
    from ncp_control.data.table_rollouts import table_source, uses_in_words

    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if ranks.count > 1 else 1
    stream = arguments.stream == "yes"
    if arguments.stream == "auto":
        stream = ranks.from_first(lambda: is_large(*arguments.data, processes=here))
    beside = next(folder for folder in out.absolute().parents if folder.is_dir())
    rollouts_of = []
    for source in arguments.data:
        table = table_source(source)
        if stream:
            rollouts_of.append(Rollouts.stream(source, beside, one_hot=arguments.actions, ranks=ranks))
        else:
            rollouts = Rollouts.load(source if table is None or not table.path.is_file() else table)
            rollouts_of.append(rollouts.one_hot() if arguments.actions else rollouts)
        if table is not None and ranks.rank == 0:
            say(uses_in_words(table, rollouts_of[-1].about["columns"]))
    return rollouts_of
