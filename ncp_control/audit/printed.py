"""A certificate as text for a terminal and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ncp_control.audit.certificate import Certificate
from ncp_control.audit.sections import sections_of
from ncp_control.audit.tables import Section
from ncp_control.base.text import markdown, shown

WIDTH = 110
LONGEST_NAME = 46
GAP = "  "


def as_text(certificate: Certificate, width: int = WIDTH) -> str:
    """Returns a certificate for a terminal, about a screen long.

    :param width: how many characters a line of text may have; a table is as wide as it needs to be
    """
    return text_of(sections_of(certificate), width)


def as_markdown(certificate: Certificate) -> str:
    """Returns a certificate in Markdown, with a row for every sensor, neuron and synapse."""
    return markdown_of(f"Certificate of {certificate.agent}", sections_of(certificate, full=True))


def text_of(sections: Sequence[Section], width: int = WIDTH) -> str:
    """Returns sections as text, in which characters that a terminal would obey stand as escapes."""
    terms = [row[0] for one in sections if not one.header for row in one.rows or ((one.title,),)]
    term = max(map(len, terms), default=0)
    found = ""
    for before, one in zip([None, *sections], sections, strict=False):
        # What consists of sentences needs no empty lines in between.
        apart = "\n" if before is not None and (before.header or one.header) else ""
        found += apart + "\n".join(_table(one, width) if one.header else _facts(one, width, term)) + "\n"
    return found


def markdown_of(title: str, sections: Sequence[Section]) -> str:
    """Returns sections in Markdown, which shows all names as they are."""
    parts = [f"# {markdown(title)}"]
    for one in sections:
        parts.append(f"## {markdown(one.title[:1].upper() + one.title[1:])}")
        if one.rows:
            parts.append("\n".join(_markdown_table(one)))
        if one.lines:
            mark = "- " if len(one.lines) > 1 else ""
            parts.append("\n".join(f"{mark}{markdown(line)}" for line in one.lines))
    return "\n\n".join(parts) + "\n"


def cut(text: str) -> str:
    """Returns a text for a cell of a table: one line, and not too long."""
    text = shown(text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _table(section: Section, width: int) -> list[str]:
    """Returns a table: words and ranges begin at one place, and other numbers end there."""
    rows = [[cut(cell) for cell in row] for row in (section.header, *section.rows)]
    lines = [""] * len(rows)
    for k, column in enumerate(zip(*rows, strict=True)):
        size, words = max(map(len, column)), k < section.left or any(" to " in cell for cell in column[1:])
        lines = [
            line + GAP * (k > 0) + (cell.ljust(size) if words else cell.rjust(size))
            for line, cell in zip(lines, column, strict=True)
        ]
    return [line.rstrip() for line in lines] + [part for line in section.lines for part in _wrapped(line, width)]


def _facts(section: Section, width: int, term: int) -> list[str]:
    """Returns sentences, with what they are about before them."""
    rows = section.rows or tuple((section.title if k == 0 else "", line) for k, line in enumerate(section.lines))
    return [part for name, text in rows for part in _wrapped(text, width, f"{shown(name).ljust(term)}{GAP}")]


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    """Breaks a text into lines, of which the first begins with `lead` and the others below it."""
    # A number stays on one line with its percent sign; what `shown` returns has no such character.
    kept = shown(text).replace(" %", "\0%")
    lines = textwrap.wrap(
        kept, width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def _markdown_table(section: Section) -> list[str]:
    """Returns the lines of a table in Markdown."""
    header = section.header or ("", "")
    marks = ["---" if k < section.left or not section.header else "---:" for k in range(len(header))]
    rows = [[markdown(" ".join(cell.split())) for cell in row] for row in section.rows]
    return [f"| {' | '.join(row)} |" for row in [[markdown(one) for one in header], marks, *rows]]
