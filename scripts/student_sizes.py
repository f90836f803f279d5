"""Draw what students of a teacher are worth against how many parameters they have, a line for every kind of cell.

    ncp-control evaluate RUN/best.safetensors --episodes 100 --seed 1000 --random 0.05 --json >> sizes.jsonl
    python scripts/student_sizes.py sizes.jsonl --out sizes.png

The first command is for every student, with `--random 0.05` and with `--random 0`, and for the teacher. The second one
prints a table in Markdown and draws a panel for each share of random actions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, new_figure, plain, save_figure
from ncp_control.rl import load_policy
from ncp_control.rl.policies.circuit import actor_circuit

COLOURS = {"DualLTC": BLUE, "CfC": GREEN, "LSTM": ORANGE, "GRU": PINK, "LaggedMLP": GREY}
MARKERS = dict(zip(COLOURS, "oD^vs", strict=True))


@dataclass
class Arguments:
    """Draw returns of students against their parameters."""

    evaluated: Annotated[Path, tyro.conf.Positional]
    """What `ncp-control evaluate --json` printed of every student and of their teacher, a line each."""

    out: Path = Path("sizes.png")
    """The picture."""


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of a student.

    :param cell: the class of its cell
    :param parameters: those of the circuit and of the layer that makes actions of its outputs
    :param random: the share of random actions
    :param share: its mean return over the teacher's
    :param found: what `evaluate` printed
    """

    cell: str
    parameters: int
    random: float
    share: float
    found: dict[str, Any]


def read(path: Path) -> list[Evaluated]:
    """Returns the evaluations in a file, without those of the teacher."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    circuits = [actor_circuit(load_policy(found["checkpoint"]).policy) for found in lines]
    teacher = {found["random"]: found["mean_return"] for found, one in zip(lines, circuits, strict=True) if one is None}
    students = []
    for found, circuit in zip(lines, circuits, strict=True):
        if circuit is None:
            continue
        if found["random"] not in teacher:
            raise SystemExit(f"{path} has no line of a teacher with --random {found['random']}")
        acts = load_policy(found["checkpoint"]).policy.action_net
        count = sum(one.numel() for part in (circuit, acts) for one in part.parameters())
        share = found["mean_return"] / teacher[found["random"]]
        students.append(Evaluated(type(circuit.cell).__name__, count, found["random"], share, found))
    return sorted(students, key=lambda student: student.parameters)


def table(students: list[Evaluated]) -> str:
    """Returns a table in Markdown: returns, lowest returns and shares."""
    lines = ["| cell | parameters | random | return | lowest | share |", "|---|---|---|---|---|---|"]
    for one in students:
        return_, spread, lowest = (one.found[f"{name}_return"] for name in ("mean", "std", "min"))
        words = (f"{one.random:.0%}", f"{return_:,.0f} ± {spread:,.0f}", f"{lowest:,.0f}", f"{one.share:.1%}")
        lines.append(" | ".join(("| " + one.cell, f"{one.parameters:,}", *words)) + " |")
    return "\n".join(lines)


def draw(students: list[Evaluated], out: Path) -> None:
    """Draws a panel for each share of random actions."""
    shares = sorted({one.random for one in students})
    figure = new_figure(4.6 * len(shares), 3.4)
    panels = np.atleast_1d(figure.subplots(1, len(shares), sharey=True))
    for panel, random in zip(panels, shares, strict=True):
        for cell, colour in COLOURS.items():
            line = [one for one in students if one.cell == cell and one.random == random]
            sizes, values = [one.parameters for one in line], [100 * one.share for one in line]
            panel.plot(sizes, values, color=colour, marker=MARKERS[cell], label=cell, linewidth=1.5)
        panel.set_xscale("log")
        panel.set_xticks([500, 1500, 5000, 10000], ["500", "1,500", "5,000", "10,000"])
        panel.minorticks_off()
        panel.set_xlabel("parameters")
        panel.set_title(f"{random:.0%} random actions" if random else "undisturbed", fontsize=10)
        panel.grid(alpha=0.3)
        plain(panel)
    panels[0].set_ylabel("return, % of the teacher's")
    panels[0].legend(frameon=False)
    save_figure(figure, out, dpi=130)


def main() -> None:
    """Prints the table and draws the picture."""
    arguments = tyro.cli(Arguments)
    students = read(arguments.evaluated)
    print(table(students))
    draw(students, arguments.out)


if __name__ == "__main__":
    main()
