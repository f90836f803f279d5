"""`ncp-control compare`: fits many models to the same rollouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ncp_control.cli.arguments import typed_command
from ncp_control.cli.where import SELDOM as SELDOM
from ncp_control.cli.where import Where

if TYPE_CHECKING:
    from ncp_control.dynamics.table import RowResult


@dataclass
class Arguments:
    """Fit many models to the same rollouts from several seeds and compare them in one table: the LTC paper's Table 6,
    with rows that it lacks.

    Example: ncp-control compare ./cheetah-v0 --seeds 5 --epochs 200 --out runs/table6
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A Minari id or folder, a folder of .npy or .npz traces, or a table, such as FILE.csv:time=COLUMN,group=COLUMN."""

    seeds: int = 5
    """Number of seeds for each row."""

    epochs: int = 200
    """Number of epochs of every fit."""

    actions: bool = False
    """Let the models read the actions as well as the observations."""

    loss: str = "raw"
    """raw: squared errors in the units of the observations; normalised: divided by the observations' variances."""

    horizon: int = 1
    """Fit the models to this many steps of their own predictions; 1: to the next observation only."""

    rows: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Compare only these rows, such as LTC "MLP, five lags"; "list" shows all."""

    out: Path | None = None
    """The folder for this comparison; by default runs/compare."""

    resume: bool = False
    """Continue the comparison in the folder, or start it if there is none yet."""

    json: bool = False
    """Print one JSON object last."""

    where: Annotated[Where, tyro.conf.arg(name="")] = field(default_factory=Where)


def run(arguments: Arguments) -> int:
    """Compares models and prints the table."""
    from ncp_control.dynamics.comparison import ROWS, Comparison, choose_rows, compare
    from ncp_control.dynamics.table import AHEAD, table_text

    if arguments.rows == ("list",):
        print("\n".join(row.name for row in ROWS))
        return 0
    rows = choose_rows(arguments.rows)
    place = arguments.where.place()
    out = arguments.out or Path("runs") / "compare"
    what = Comparison(
        arguments.data, arguments.seeds, arguments.epochs, arguments.actions, arguments.loss, arguments.horizon
    )
    results = compare(what, out, rows, place=place, resume=arguments.resume, command=typed_command())
    if arguments.json:
        entries = [
            {
                "model": row.name,
                "parameters": row.parameters,
                "errors": list(row.errors),
                "seconds": row.seconds,
                "open_loop": {name: row.open_loop.get(name) for name in AHEAD},
            }
            for row in results
        ]
        print(json.dumps({"out": str(out), "rows": entries}))
    else:
        print(table_text(results))
        print(
            "\nerror: mean squared error of the next observation on the test rollouts; spread: standard deviation over "
            "the seeds;\np: how probable the difference to LTC is by chance (t-test, paired by seed)\n"
            + open_loop_words(results)
            + f"written to {out}"
        )
    failed = [row for row in results if row.trouble]
    if failed and all(row.seconds is None for row in results):  # only a row whose fits ended has a duration
        raise ValueError(f"all fits failed; the first, {failed[0].name}: {failed[0].trouble}")
    return 0


def open_loop_words(results: Sequence[RowResult]) -> str:
    """Says what the columns of open-loop errors are, if there are any."""
    known = {name.split()[0] for row in results for name in row.open_loop}
    if not known:
        return ""
    off_policy = "; off-policy: after those of other episodes, in MuJoCo" if "off-policy" in known else ""
    return f"recorded 10: error over variance 10 steps ahead, open loop, after the recorded actions{off_policy}\n"
