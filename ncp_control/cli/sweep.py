"""`ncp-control sweep`: many runs of one kind, here or on a cluster, and a table of them."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command
from ncp_control.cli.where import Where

SELDOM = ("shared", "dry_run")


@dataclass
class Arguments:
    """Run recipes with several seeds and several values of their settings, and compare them in one table.

    With --kind fit or distil, the subjects are rollouts or teachers, and --set gives options of that command.

    Example: ncp-control sweep pendulum-positions --seeds 0 1 2 --set learning_rate=1e-3,3e-3 --out runs/rates
    Example: ncp-control sweep default --set env=Pendulum-v1 --seeds 0 1 2 --out runs/pendulum
    Example: ncp-control sweep ./cheetah-v0 --kind fit --set cell=ltc,cfc epochs=50 --out runs/cells
    """

    subjects: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE ...")]
    """Recipes; or rollouts or teachers, with --kind."""

    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")] = (0,)
    """Run every setting with each of these seeds."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=V,V ...")] = ()
    """Values of keys; there is a run for every combination."""

    kind: str = "train"
    """The command that every run is: train, distil or fit."""

    steps: int | None = None
    """Steps of every training, instead of the recipe's number."""

    eval_every: int | None = None
    """Steps between the evaluations of a training."""

    search: int | None = None
    """Let Optuna choose the values of this many trials, from the ranges in the file of --ranges."""

    ranges: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A .yml file with a range for each key, such as learning_rate: {low: 1e-4, high: 1e-2, log: true}."""

    out: Path | None = None
    """The sweep's folder; by default runs/sweep-RECIPE."""

    resume: bool = False
    """Continue the sweep in the folder: finished runs are kept, and others go on."""

    dry_run: bool = False
    """Only print the commands of the runs."""

    json: bool = False
    """Print one JSON object last."""

    where: Annotated[Where, tyro.conf.arg(name="")] = field(default_factory=Where)


def run(arguments: Arguments) -> int:
    """Runs the sweep and prints its table."""
    from ncp_control.cli.as_job import check
    from ncp_control.scale.plan import read_values
    from ncp_control.scale.sweep import Sweep, check_sweep, commands_of, sweep
    from ncp_control.scale.table import COLUMNS, table_text

    if arguments.kind != "train" and (arguments.steps is not None or arguments.eval_every is not None):
        raise ValueError(f"--steps and --eval-every are for trainings: give {arguments.kind} its options with --set")
    options = []
    for name in ("steps", "eval_every"):
        value = getattr(arguments, name)
        options += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    what = Sweep(arguments.subjects, arguments.seeds, read_values(arguments.set), arguments.kind, options)
    place = arguments.where.place()
    out = arguments.out or Path("runs") / f"sweep-{Path(arguments.subjects[0]).stem}"
    if what.kind in ("fit", "distil"):
        # before the first run, so that a misspelt option does not fail in all of them
        for words in map(shlex.split, commands_of(what)):
            check(words[1:])
    if arguments.dry_run:
        check_sweep(what)
        print("\n".join(commands_of(what, out)))
        return 0
    if arguments.search is not None or arguments.ranges is not None:
        return run_search(arguments, what, place)
    outcome = sweep(what, out, place, resume=arguments.resume, command=typed_command())
    if arguments.json:
        names = [name for name, _ in COLUMNS[what.kind]]
        rows = [{"setting": row.label, **{name: row.numbers(name) for name in names}} for row in outcome.rows]
        print(json.dumps({"out": str(out), "rows": rows, "failed": outcome.failed}))
    else:
        print(table_text(what.kind, outcome.rows))
        print(f"\nmean +- standard deviation (n - 1) over the seeds\nwritten to {out}")
    if outcome.failed:
        name, reason = next(iter(outcome.failed.items()))
        more = f", and {len(outcome.failed) - 1} more" if len(outcome.failed) > 1 else ""
        every = "" if any(row.results for row in outcome.rows) or not more else "all runs failed; "
        raise ValueError(
            f"{every}{name} failed{more}: {reason} (its log is {out}/logs/{name}.txt; --resume tries again)"
        )
    return 0


def run_search(arguments: Arguments, what: Any, place: Any) -> int:
    """Runs the search and prints its trials, the best first."""
    from ncp_control.scale.ranges import read_ranges
    from ncp_control.scale.search import search, trials_text

    if arguments.search is None or arguments.ranges is None:
        raise ValueError("a search takes both: --search TRIALS and --ranges FILE")
    out = arguments.out or Path("runs") / f"search-{Path(arguments.subjects[0]).stem}"
    ranges = read_ranges(arguments.ranges)
    outcome = search(what, ranges, arguments.search, out, place, resume=arguments.resume, command=typed_command())
    best = outcome.best()
    if arguments.json:
        print(
            json.dumps(
                {"out": str(out), "best": best and asdict(best), "trials": [asdict(trial) for trial in outcome.trials]}
            )
        )
    else:
        print(trials_text(what.kind, outcome.trials))
        print(f"\nwritten to {out}")
    if best is None:
        reason = next(
            (f"; trial {trial.number} failed: {trial.reason}" for trial in outcome.trials if trial.reason), ""
        )
        raise ValueError(
            f"no trial was finished{reason} (the logs are in {out}/logs, and --resume tries the failed ones again)"
        )
    return 0
