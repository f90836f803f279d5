"""`ncp-control compare`: many models on the same rollouts."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass
class Arguments:
    """Fit many models to the same rollouts from several seeds, and put them into one table: the LTC paper's Table 6,
    the rows that it lacks, and ours.

    Example: ncp-control compare ./cheetah-v0 --seeds 5 --epochs 200 --out runs/table6
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A Minari id, a Minari folder, or a folder of .npy or .npz traces."""

    seeds: int = 5
    """Fits of each row."""

    epochs: int = 200
    """Of every fit."""

    actions: bool = False
    """The models read the actions too."""

    loss: str = "raw"
    """raw: errors in the units of the observations; normalised: over their variances."""

    rows: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Only these rows, such as LTC LSTM "CfC"; "list" shows all."""

    workers: int | None = None
    """Processes; by default one a core."""

    out: Path | None = None
    """The folder of this comparison; by default runs/compare."""

    resume: bool = False
    """Go on with the comparison in the folder, or begin it if there is none yet."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Compare and print."""
    from ncp_control.dynamics.comparison import Comparison, compare
    from ncp_control.dynamics.rows import ROWS, choose
    from ncp_control.dynamics.table import table_text

    if arguments.rows == ("list",):
        print("\n".join(row.name for row in ROWS))
        return 0
    rows = choose(arguments.rows)
    out = arguments.out or Path("runs") / "compare"
    what = Comparison(arguments.data, arguments.seeds, arguments.epochs, arguments.actions, arguments.loss)
    command = shlex.join(["ncp-control", *(word for word in sys.argv[1:] if word != "--resume")])
    try:
        lines = compare(what, out, rows, workers=arguments.workers, resume=arguments.resume, command=command)
    except KeyboardInterrupt:
        print(f"\ninterrupted: --resume goes on from what is in {out}", file=sys.stderr)
        raise
    if arguments.json:
        found = [
            {"model": line.name, "parameters": line.parameters, "errors": list(line.errors), "seconds": line.seconds}
            for line in lines
        ]
        print(json.dumps({"out": str(out), "rows": found}))
    else:
        print(table_text(lines))
        print(
            "\nerror: mean squared, of the next observation on the test rollouts; spread: over seeds; "
            "p: of the difference to LTC,\npaired by seed, Student's t\n"
            f"written to {out}"
        )
    return 0
