"""Writing a report on the closed loop as one web page, which holds all that it shows and uses no network."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ncp_control.base.files import write_atomically
from ncp_control.base.pages import figure_bytes, filled, page_end, page_head
from ncp_control.base.sections import Section, html_of, report_file
from ncp_control.base.text import shown
from ncp_control.loop.figures import figures_of
from ncp_control.loop.printed import sections_of
from ncp_control.loop.report import LoopReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The heading and the caption of each picture.
CAPTIONS = {
    "attractors": ("Where starts lead", "The share of starts that settle to each attractor."),
    "portraits": (
        "Attractors on their own axes",
        "What the agent sees, a dot for each step, on the two axes along which it varies most. A cycle is a few dots, "
        "a closed curve is a line, and chaos fills an area.",
    ),
    "spectrum": (
        "Spectrum of exponents",
        "How fast small differences grow (above 0) or shrink, direction by direction, with 95 % intervals over starts. "
        "Directions that shrink faster than e^-1.5 a step are not drawn.",
    ),
    "multipliers": (
        "Multipliers",
        "By what a small difference is multiplied in each round of a cycle, or in each step at rest. Inside the "
        "circle, it dies out.",
    ),
}


def write_dynamics(report: LoopReport, path: str | Path, links: Mapping[str, str] | None = None) -> None:
    """Writes a report as a page.

    :param report: the report
    :param path: the `.html` file; it is replaced as a whole if it exists
    :param links: an address for each attractor, by its letter, such as that of a laboratory that begins there
    """
    figures = figures_of(report)
    title = f"{report.agent} in closed loop"
    write_page(path, title, sections_of(report), [(*CAPTIONS[name], figures[name]) for name in figures], linked(links))


def write_page(
    path: str | Path,
    title: str,
    sections: Sequence[Section],
    pictures: Sequence[tuple[str, str, Figure]],
    lead: str = "",
) -> None:
    """Writes sections and pictures as a page.

    :param path: the `.html` file; it is replaced as a whole if it exists
    :param title: the title
    :param sections: the sections
    :param pictures: a heading, a caption and a figure each
    :param lead: HTML below the title
    """
    folder = resources.files("ncp_control.loop") / "static"
    title = escape(shown(title))
    parts = {
        "title": title,
        "head": page_head(title, report_file("report.css") + (folder / "page.css").read_text(encoding="utf-8")),
        "lead": lead,
        "sections": "\n".join(map(html_of, sections)),
        "figures": "\n".join(section(*picture) for picture in pictures),
        "end": page_end(report_file("report.js")),
    }
    write_atomically(path, filled((folder / "page.html").read_text(encoding="utf-8"), parts).encode("utf-8"))


def linked(links: Mapping[str, str] | None) -> str:
    """Returns links to attractors as HTML."""
    if not links:
        return ""
    found = " · ".join(f'<a href="{escape(address)}">{escape(name)}</a>' for name, address in links.items())
    return f"<p>Run the agent in a laboratory that begins on attractor {found}</p>"


def section(title: str, caption: str, figure: Figure) -> str:
    """Returns a picture with its heading and its caption as HTML."""
    picture = base64.b64encode(figure_bytes(figure, "svg", dpi=100)).decode("ascii")
    return (
        f'<section class="figure"><h2>{title}</h2>'
        f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{picture}"><p>{escape(caption)}</p></section>'
    )
