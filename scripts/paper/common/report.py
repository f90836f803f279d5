"""The report of a study: our numbers beside the paper's, which of its statements hold, and the study's command line."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ncp_control._version import __version__
from ncp_control.base.files import write_atomically
from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, save_figure
from ncp_control.runs.folder import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | int | float | None
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)
PACKAGES = ("torch", "numpy", "scipy", "torchdiffeq", "matplotlib")
VERDICTS = {True: "holds", False: "does not hold", None: "open"}


@dataclass(frozen=True)
class Finding:
    """A statement of a paper, and what was found here.

    :param name: the paper's name for it, such as "Observation VI"
    :param says: what the paper says, in our words
    :param holds: whether it holds here; None if these runs cannot tell
    :param found: the numbers, in a sentence
    """

    name: str
    says: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Report:
    """One table with the published values beside ours, the findings, and the pictures.

    :param title: the title of the table
    :param head: the names of the columns
    :param rows: a value for each column; None is an empty cell
    :param findings: which statements of the paper hold
    :param notes: a sentence for each difference from the paper, in the set-up or the result
    :param figures: matplotlib figures by the stem of their files
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Value]]
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"a row of {len(row)} values under a head of {len(self.head)}: {row!r}")

    def text(self) -> str:
        """Writes the report for a terminal."""
        cells = [tuple(self.head), *(tuple(map(show_value, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells]
        parts = [self.title, "", lines[0], "-" * len(lines[0]), *lines[1:]]
        if self.findings:
            parts += [
                "",
                *(f"{item.name} {VERDICTS[item.holds]}: {item.says}\n    {item.found}" for item in self.findings),
            ]
        if self.notes:
            parts += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(line.rstrip() for line in parts)

    def markdown(self) -> str:
        """Writes the report as Markdown: table, findings, notes, pictures."""
        lines = [f"# {self.title}", "", markdown_row(self.head), "|" + "---|" * len(self.head)]
        lines += [markdown_row([show_value(value) for value in row]) for row in self.rows]
        if self.findings:
            lines += ["", "| the paper says | here | found |", "|---|---|---|"]
            lines += [
                markdown_row([f"{item.name}: {item.says}", VERDICTS[item.holds], item.found]) for item in self.findings
            ]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        for stem in self.figures:
            lines += ["", f"![{stem.replace('_', ' ')}]({stem}.svg)"]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Returns table, findings and notes as JSON values."""
        return {
            "title": self.title,
            "rows": [dict(zip(self.head, map(plain_value, row), strict=True)) for row in self.rows],
            "findings": [
                {
                    "name": item.name,
                    "says": item.says,
                    "holds": None if item.holds is None else bool(item.holds),
                    "found": item.found,
                }
                for item in self.findings
            ],
            "notes": list(self.notes),
        }

    def write(self, out: Path, about: Mapping[str, Any]) -> None:
        """Writes `report.md`, `table.csv`, `report.json`, and every figure as SVG and PNG.

        :param out: the folder
        :param about: the settings, which the JSON keeps with the versions of packages
        """
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows([["" if value is None else value for value in row] for row in self.rows])
        kept = {**self.as_json(), "about": dict(about), "ncp_control": __version__, "versions": versions(PACKAGES)}
        texts = {
            "table.csv": file.getvalue(),
            "report.md": self.markdown(),
            "report.json": json.dumps(kept, indent=2),
        }
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomically(out / name, text.encode())
        for stem, figure in self.figures.items():
            for suffix in (".svg", ".png"):
                save_figure(figure, out / f"{stem}{suffix}", dpi=150)


def show_value(value: Value) -> str:
    """Writes a value as text; floats have four digits."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def plain_value(value: Value) -> Value:
    """Returns a value that JSON can hold: Python's numbers for NumPy's, None for NaN and infinity."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def markdown_row(cells: Sequence[str]) -> str:
    """Writes a row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@contextmanager
def drawing(style: str | None) -> Iterator[None]:
    """Draws in our colours; a style of matplotlib, by name or as a style sheet's file, may override them."""
    from cycler import cycler
    from matplotlib.style import context

    # With the salt, and text as text, equal figures give equal SVG files.
    ours = {"svg.hashsalt": "ncp", "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False}
    try:
        with context([{**ours, "axes.prop_cycle": cycler(color=COLOURS)}, *([style] if style else [])]):
            yield
    except OSError as error:
        if style is None or style not in str(error):
            raise
        raise ValueError(f"{style!r} is neither a style of matplotlib nor the file of one") from None


@dataclass(kw_only=True)
class Settings:
    """The settings that every study has."""

    seed: int = 0
    """The seed of everything random."""

    full: bool = False
    """Run at the size of the paper, which takes longer."""

    out: Path | None = None
    """The folder for the table and the pictures; by default runs/paper/STUDY."""

    style: str | None = None
    """Draw in a style of matplotlib: its name, or the file of a style sheet."""

    json: bool = False
    """Print one JSON object last, instead of the table."""


S = TypeVar("S", bound=Settings)


def run_report(name: str, about: str, kind: type[S], make: Callable[[S], Report]) -> int:
    """Runs the command line of a study: reads the settings, makes the report, writes it and prints it.

    :param name: the name of the study
    :param about: the text of `--help`
    :param kind: the dataclass of the settings
    :param make: makes the report from the settings
    :return: the exit code
    """
    import sys

    import tyro

    program = f"python -m scripts.paper.{name}"
    settings = tyro.cli(kind, prog=program, description=about, config=(tyro.conf.FlagCreatePairsOff,))
    out = settings.out or Path("runs") / "paper" / name
    started = time.monotonic()
    try:
        with drawing(settings.style):
            report = make(settings)
            kept = {item.name: getattr(settings, item.name) for item in fields(settings) if item.name != "out"}
            report.write(out, {"command": name, **kept})
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"{program} needs {error.name}: pip install 'ncp-control[data,plot]'", file=sys.stderr)
        return 2
    if settings.json:
        print(json.dumps({"out": str(out), **report.as_json()}))
    else:
        print(f"{report.text()}\n\nwritten to {out} in {time.monotonic() - started:.0f} s")
    return 0
