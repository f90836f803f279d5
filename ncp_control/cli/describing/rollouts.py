"""`ncp-control describe` for rollouts: a Minari dataset, a folder of traces, one trace, or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.base.text import shown
from ncp_control.cli.describing import facts

Described = dict[str, Any]


def is_dataset(target: str) -> bool:
    """Whether a target is a table, or the id of a Minari dataset on this machine."""
    from ncp_control.data.minari_files import minari_folder
    from ncp_control.data.table_rollouts import table_source

    table = table_source(target)
    if table is not None:
        return table.path.is_file()
    return not Path(target).exists() and minari_folder(target) is not None


def describe(target: str, figure: Path | None) -> Described:
    """Summarises rollouts, and draws them too if a file for the figure is given."""
    from ncp_control.data import Rollouts
    from ncp_control.data.figure import check_suffix, draw
    from ncp_control.data.summary import summarize

    if figure is not None:
        check_suffix(figure)  # before the rollouts are read, which may take long
    rollouts = Rollouts.load(target)
    if figure is not None:
        draw(rollouts, figure)
    return summarize(rollouts)


def show(summary: Described) -> None:
    """Prints the summary as tables."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts.show([*counts(summary), *made(summary["about"])])
    print()
    table = Table("observation", *(f"{name:>8}" for name in ("least", "mean", "std", "most")))
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for row in summary["observations"]:
        table.add_row(escape(shown(row["name"])), *(f"{row[key]:.4g}" for key in ("least", "mean", "std", "most")))
    Console(highlight=False).print(table)


def counts(summary: Described) -> list[tuple[str, str]]:
    """Returns the rows of numbers: rollouts, steps, returns, actions."""
    least, most = summary["steps_of_a_rollout"]
    each = f"{most:,} each" if least == most else f"{least:,} to {most:,} each"
    rows = [] if summary["level"] is None else [("level", summary["level"])]
    rows += [("rollouts", f"{summary['rollouts']:,}"), ("steps", f"{summary['steps']:,}, {each}")]
    if summary["parts"]:
        rows.append(("parts", ", ".join(f"{part} {count}" for part, count in summary["parts"].items())))
    if returns := summary["returns"]:
        spread = f"{returns['mean']:,.2f} +- {returns['std']:,.2f}"
        rows.append(("return", f"{spread}, from {returns['least']:,.2f} to {returns['most']:,.2f}"))
        if score := summary["score"]:
            scale = f"0 is a return of {score['ref_min_score']:,.2f}, 1 of {score['ref_max_score']:,.2f}"
            ends = f"from {score['least']:.3f} to {score['most']:.3f}"
            rows.append(("score", f"{score['mean']:.3f} +- {score['std']:.3f}, {ends}; {scale}"))
        rows.append(("terminated", f"{summary['terminated']} of {summary['rollouts']}"))
    if summary["action_shape"] is None:
        rows.append(("actions", "none stored"))
    else:
        shape = summary["action_shape"]
        size = " x ".join(map(str, shape))
        rows.append(("actions", f"{size} number{'s' * (size != '1')} a step" if shape else "one choice a step"))
    if random := summary["random_actions"]:
        wanted = "" if random["wanted"] is None else f"; {random['wanted']:.2%} was wanted"
        measured = f"{random['share']:.2%} ({random['count']:,} of {random['of']:,})"
        rows.append(("random", f"{measured}, 95 % interval {random['low']:.2%} to {random['high']:.2%}{wanted}"))
    if times := summary["elapsed"]:
        rows.append(("elapsed", f"{times['least']:.4g} to {times['most']:.4g}, mean {times['mean']:.4g}"))
    return rows


def made(about: Described) -> list[tuple[str, str]]:
    """Returns the rows that say how the rollouts were made, as far as it is recorded."""
    rows = [("description", str(about["description"]))] if about.get("description") else []
    if "env" in about:
        rows.append(("environment", str(about["env"])))
    if controller := about.get("controller"):
        digest = f", SHA-256 {controller['sha256'][:16]}..." if controller.get("sha256") else ""
        rows.append(("controller", f"{controller.get('name')}{digest}"))
    rows += [(key, str(about[key])) for key in ("algorithm", "author", "seed", "group") if key in about]
    if versions := about.get("versions"):
        rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    rows += facts.rows_of({key: about[key] for key in ("command", "code_link", "combined_from") if about.get(key)})
    rows += [(key, str(about[key])) for key in ("id", "source") if about.get(key)]
    for use, names in about.get("columns", {}).items():
        rows.append((use, names if isinstance(names, str) else ", ".join(names)))
    return rows
