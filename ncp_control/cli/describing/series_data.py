"""`ncp-control describe` for a table of series: labels, values, cells that are missing."""

from __future__ import annotations

from typing import Any

from ncp_control.cli.describing import facts
from ncp_control.series.tables import is_series as is_series

Described = dict[str, Any]


def describe(target: str) -> Described:
    """Returns rows, groups, classes, missing cells and intervals of a table, as JSON values."""
    import numpy as np

    from ncp_control.series.splitting import is_known
    from ncp_control.series.tables import read_series

    data = read_series(target)
    meta = data.meta
    targets = np.concatenate([series.targets for series in data.series])
    known = is_known(targets)
    lengths = [len(series.inputs) for series in data.series]
    description: Described = {
        "rows": meta["rows"], "groups": meta["groups"], "rows_of_a_series": [min(lengths), max(lengths)],
        "task": "class" if data.classes else "the next row" if meta.get("next") else "numbers",
        "whole": data.whole, "known_targets": float(np.mean(known)), "columns": meta["columns"],
        "missing": meta["missing"], "split": meta["split"],
        "classes": {name: int((targets == k).sum()) for k, name in enumerate(data.classes)},
    }  # fmt: skip
    times = [series.elapsed[1:] for series in data.series if series.elapsed is not None and len(series.elapsed) > 1]
    if times:
        every = np.concatenate(times)
        description["intervals"] = {
            "least": float(every.min()), "median": float(np.median(every)), "most": float(every.max())
        }  # fmt: skip
    return description


def show(description: Described) -> None:
    """Prints what `describe` found."""
    least, most = description["rows_of_a_series"]
    each = f"{least:,} rows" if least == most else f"{least:,} to {most:,} rows"
    of = "each whole series" if description["whole"] else "each row"
    task = "the numbers of the next row" if description["task"] == "the next row" else f"{description['task']} of {of}"
    count = description["groups"]
    rows = [
        ("rows", f"{description['rows']:,}"),
        ("groups", f"{count:,} of {each}" if count > 1 else "one"),
        ("task", task),
        ("known", f"{description['known_targets']:.1%} of the targets"),
    ]
    if description["classes"]:
        rows.append(("classes", ", ".join(f"{name} {number:,}" for name, number in description["classes"].items())))
    if times := description.get("intervals"):
        rows.append(("intervals", f"{times['least']:.4g} to {times['most']:.4g}, median {times['median']:.4g}"))
    else:
        rows.append(("intervals", "rows are equally far apart"))
    missing = ", ".join(f"{name} {share:.1%}" for name, share in description["missing"].items())
    rows.append(("missing", missing or "no cell"))
    rows += [
        (use, names if isinstance(names, str) else ", ".join(names)) for use, names in description["columns"].items()
    ]
    rows.append(
        ("split", {"time": "by time", "groups": "by groups", "none": "all rows in one part"}[description["split"]])
    )
    facts.show(rows)
