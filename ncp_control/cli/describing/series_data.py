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
    targets = np.concatenate([one.targets for one in data.series])
    known = is_known(targets)
    lengths = [len(one.inputs) for one in data.series]
    found: Described = {
        "rows": meta["rows"], "groups": meta["groups"], "rows_of_a_series": [min(lengths), max(lengths)],
        "task": "class" if data.classes else "the next row" if meta.get("next") else "numbers",
        "whole": data.whole, "known_targets": float(np.mean(known)), "columns": meta["columns"],
        "missing": meta["missing"], "split": meta["split"],
        "classes": {name: int((targets == k).sum()) for k, name in enumerate(data.classes)},
    }  # fmt: skip
    times = [one.elapsed[1:] for one in data.series if one.elapsed is not None and len(one.elapsed) > 1]
    if times:
        every = np.concatenate(times)
        found["intervals"] = {
            "least": float(every.min()), "median": float(np.median(every)), "most": float(every.max())
        }  # fmt: skip
    return found


def show(found: Described) -> None:
    """Prints what `describe` found."""
    least, most = found["rows_of_a_series"]
    each = f"{least:,} rows" if least == most else f"{least:,} to {most:,} rows"
    of = "each whole series" if found["whole"] else "each row"
    task = "the numbers of the next row" if found["task"] == "the next row" else f"{found['task']} of {of}"
    count = found["groups"]
    rows = [
        ("rows", f"{found['rows']:,}"),
        ("groups", f"{count:,} of {each}" if count > 1 else "one"),
        ("task", task),
        ("known", f"{found['known_targets']:.1%} of what is to be told"),
    ]
    if found["classes"]:
        rows.append(("classes", ", ".join(f"{name} {number:,}" for name, number in found["classes"].items())))
    if times := found.get("intervals"):
        rows.append(("intervals", f"{times['least']:.4g} to {times['most']:.4g}, median {times['median']:.4g}"))
    else:
        rows.append(("intervals", "rows are equally far apart"))
    missing = ", ".join(f"{name} {share:.1%}" for name, share in found["missing"].items())
    rows.append(("missing", missing or "no cell"))
    rows += [(use, names if isinstance(names, str) else ", ".join(names)) for use, names in found["columns"].items()]
    rows.append(("split", {"time": "by time", "groups": "by groups", "none": "all rows in one part"}[found["split"]]))
    facts.show(rows)
