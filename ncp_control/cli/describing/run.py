"""`ncp-control describe` for the folder of a run: a training, a distillation, a fit or a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.base.kinds import RECORD
from ncp_control.cli.describing import facts
from ncp_control.runs.curve import read_curve
from ncp_control.runs.folder import read_record

Described = dict[str, Any]


def describe(path: Path) -> Described:
    """Returns a run's kind, its progress, its best result and how it was started, as JSON values."""
    record = read_record(path / RECORD)
    description: Described = {"kind": "run", "done": None, "of": None, "unit": None, "best": None}
    if "recipe" in record:
        description |= {"kind": "training of an agent", **of_training(path, record["recipe"].get("n_timesteps"))}
    elif record.get("method") == "behaviour cloning":
        description |= {
            "kind": "behaviour cloning of a dataset",
            **of_cloning(path, record["settings"].get("iterations")),
        }
    elif "teacher" in record:
        description |= {"kind": "distillation of a teacher", **of_training(path, record["settings"].get("steps"))}
    elif "series" in record:
        description |= {"kind": "fit of a model of series", **of_fit(path, record["settings"])}
    elif "settings" in record:
        description |= {"kind": "fit of a model of the dynamics", **of_fit(path, record["settings"])}
    elif "compared" in record:
        done = len(list(path.glob("fits/*/result.json")))
        description |= {"kind": "comparison of models of the dynamics", "unit": "fits", "done": done}
        description["of"] = record["compared"].get("seeds", 0) * len(record.get("rows", []))
    files = sorted(file.name for file in path.iterdir() if not file.name.startswith("."))
    return {**description, "files": files, "record": record}


def of_training(path: Path, steps: Any) -> Described:
    """Returns how many of its steps a training has done, and its best evaluation."""
    rows = read_curve(path)
    best = max(rows, key=lambda row: row["mean_return"], default=None)
    done = int(rows[-1]["steps"]) if rows else 0
    words = None if best is None else f"return {best['mean_return']:,.1f} at step {best['steps']:,.0f}"
    return {"unit": "steps", "done": done, "of": steps, "best": words}


def of_cloning(path: Path, iterations: Any) -> Described:
    """Returns how many of its iterations a behaviour cloning has done, and its best evaluation."""
    rows = read_curve(path)
    best = max(enumerate(rows, 1), key=lambda numbered: numbered[1]["mean_return"], default=None)
    words = None if best is None else f"return {best[1]['mean_return']:,.1f} in iteration {best[0]}"
    return {"unit": "iterations", "done": len(rows), "of": 1 + iterations, "best": words}


def of_fit(path: Path, settings: Described) -> Described:
    """Returns how many epochs a fit has done, and its best validation error."""
    rows = read_curve(path)
    best = min(rows, key=lambda row: row["valid"], default=None)
    words = None if best is None else f"validation error {best['valid']:.4g} in epoch {best['epoch']:.0f}"
    return {"unit": "epochs", "done": len(rows), "of": settings.get("epochs"), "best": words}


def show(description: Described) -> None:
    """Prints what `describe` found."""
    record = description["record"]
    rows = [("run", description["kind"])]
    if description["done"] is not None:
        rows.append(("done", f"{description['done']:,} {description['unit']} of {description['of']:,}"))
    if description["best"]:
        rows.append(("best", description["best"]))
    rows += facts.rows_of(
        {key: record[key] for key in ("teacher", "command", "seed", "threads", "versions") if key in record}
    )
    kind = next((key for key in ("recipe", "settings", "compared") if key in record), None)
    rows += facts.rows_of({kind: record[kind]}) if kind else []
    facts.show([*rows, ("files", ", ".join(description["files"]))])
