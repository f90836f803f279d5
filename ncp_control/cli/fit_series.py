"""`ncp-control fit` for a table with labels or values, or with cells that are missing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

FIGURE = "fit.png"


def outcome(arguments: Any, command: str) -> tuple[dict[str, Any], str]:
    """Fits a model of series, evaluates it on the test part and draws a picture; returns the result as JSON values and
    in words.

    :param arguments: those of `ncp-control fit`
    :param command: kept in the record
    """
    import torch

    from ncp_control.base.progress import say
    from ncp_control.cli.arguments import cell_settings
    from ncp_control.cli.evaluate_series import picture
    from ncp_control.cli.outputs import save_picture
    from ncp_control.data.table_rollouts import table_source, uses_in_words
    from ncp_control.runs.run import BEST
    from ncp_control.series import SeriesModel, fit_series, read_series, score, split_series
    from ncp_control.series.fitting import check_settings
    from ncp_control.series.scores import words_of
    from ncp_control.wiring.plan_text import parse_plan

    check(arguments)
    check_settings(arguments.settings)
    table = table_source(arguments.data[0])
    data = read_series(table or arguments.data[0])
    assert table is not None  # read_series has read it
    say(uses_in_words(table, data.meta["columns"]))
    if "said" in data.meta:
        say(data.meta["said"])
    parts = split_series(data)
    wiring = arguments.units if arguments.wiring is None else parse_plan(arguments.wiring)
    torch.manual_seed(arguments.seed)
    model = SeriesModel.of(parts.train, arguments.cell, wiring, settings=cell_settings(arguments.set))
    out = arguments.out or Path("runs") / f"fit-{arguments.cell}-s{arguments.seed}"
    fitted = fit_series(
        model, parts, arguments.settings, seed=arguments.seed, out=out, resume=arguments.resume,
        device=arguments.device, command=command, note={"data": arguments.data[0], "command": command},
    )  # fmt: skip
    scores = score(model, parts.test)
    summary: dict[str, Any] = {
        "out": str(out), **scores.as_json(), "epochs": len(fitted.curve),
        "best_epoch": fitted.best[0] if fitted.best else None, "seconds": fitted.seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "series": [len(part.series) for part in parts], "rows": [part_rows(part) for part in parts],
        "figure": save_picture(lambda: picture(model, parts.test, scores, fitted.curve), out / FIGURE),
    }  # fmt: skip
    drawn = f", with the picture {summary['figure']}" if summary["figure"] else ""
    return summary, (
        f"{arguments.cell}, {summary['parameters']:,} parameters, {summary['epochs']} epochs in "
        f"{fitted.seconds / 60:.1f} minutes, best after epoch {summary['best_epoch']}\n"
        f"{words_of(scores)}\n"
        f"written to {out}{drawn}\n"
        f"evaluate it with:  {shlex.join(['ncp-control', 'evaluate', str(out / BEST), '--data', arguments.data[0]])}"
    )


def part_rows(part: Any) -> int:
    """Returns the number of rows of a part."""
    return sum(len(one.inputs) for one in part.series)


def check(arguments: Any) -> None:
    """Refuses options that have no meaning for series."""
    from ncp_control.base.ranks import process_numbers

    for is_given, word, why in (
        (arguments.actions, "--actions", "what read= names is read anyway"),
        (arguments.residual, "--residual", "it predicts how an observation changes"),
        (arguments.members != 1, "--members", "several models are fitted by several commands with other seeds"),
        (arguments.graph == "yes", "--graph", "a graph holds steps whose windows are all of one length"),
        (arguments.stream == "yes", "--stream", "a table is read into memory"),
    ):
        if is_given:
            raise ValueError(f"{word} has no meaning for series with labels, values or missing cells: {why}")
    if process_numbers().size > 1:
        raise ValueError("series are fitted by one process: start the command without torchrun")
