"""Reports made of sections: tables and sentences that a terminal, Markdown and a page show alike."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from ncp_control.base.text import markdown, shown

Rows = tuple[tuple[str, ...], ...]
Column = tuple[str, list[str]]
WIDTH = 110
LONGEST_NAME = 46  # of a cell in a table on a terminal
GAP = "  "
MANY = 20  # a longer table is folded


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, a table, and sentences below it. Names in it are as they are.

    :param title: the heading
    :param header: a heading for each column; empty for facts, which are pairs of a term and a text
    :param rows: the table
    :param lines: the sentences
    :param left: how many columns hold words; the others hold numbers
    """

    title: str
    header: tuple[str, ...] = ()
    rows: Rows = ()
    lines: tuple[str, ...] = ()
    left: int = 1


def table(title: str, columns: Sequence[Column], lines: Iterable[str] = (), left: int = 1) -> Section:
    """Returns a section with a table of columns, each with its heading."""
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Section(title, tuple(name for name, _ in columns), rows, tuple(lines), left)


def aligned(spans: Iterable[str]) -> list[str]:
    """Returns ranges in which the word "to" stands in one column."""
    parts = [one.partition(" to ") for one in spans]
    before = max((len(low) for low, to, _ in parts if to), default=0)
    after = max((len(high) for _, to, high in parts if to), default=0)
    return [f"{low.rjust(before)} to {high.ljust(after)}" if to else low for low, to, high in parts]


def text_of(sections: Sequence[Section], width: int = WIDTH) -> str:
    """Returns sections as text in which control characters are escaped, so that a name cannot command the terminal."""
    terms = [row[0] for section in sections if not section.header for row in section.rows or ((section.title,),)]
    term = max(map(len, terms), default=0)
    text = ""
    for before, section in zip([None, *sections], sections, strict=False):
        # What consists of sentences needs no empty lines in between.
        apart = "\n" if before is not None and (before.header or section.header) else ""
        text += apart + "\n".join(_table(section, width) if section.header else _facts(section, width, term)) + "\n"
    return text


def markdown_of(title: str, sections: Sequence[Section]) -> str:
    """Returns sections in Markdown, which shows all names as they are."""
    parts = [f"# {markdown(title)}"]
    for section in sections:
        parts.append(f"## {markdown(section.title[:1].upper() + section.title[1:])}")
        if section.rows:
            parts.append("\n".join(_markdown_table(section)))
        if section.lines:
            mark = "- " if len(section.lines) > 1 else ""
            parts.append("\n".join(f"{mark}{markdown(line)}" for line in section.lines))
    return "\n\n".join(parts) + "\n"


def cut(text: str) -> str:
    """Returns a text for a cell of a table: one line, and not too long."""
    text = shown(text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _table(section: Section, width: int) -> list[str]:
    """Returns a table: words and ranges are aligned on the left, other numbers on the right."""
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
    """Returns sentences, each behind the term that it explains."""
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


def html_of(section: Section) -> str:
    """Returns a section as HTML."""
    title = escape(shown(section.title[:1].upper() + section.title[1:]))
    name = re.sub(r"\W+", "-", section.title)
    lines = "".join(f"<p>{escape(shown(one))}</p>" for one in section.lines)
    table = facts = ""
    if section.header:
        table = f'<div class="wide" tabindex="0" role="region" aria-label="{title}">{table_of(section)}</div>'
    elif section.rows:
        pairs = "".join(f"<dt>{escape(shown(name))}</dt><dd>{escape(shown(text))}</dd>" for name, text in section.rows)
        facts = f"<dl>{pairs}</dl>"
    body = facts + table + lines
    if len(section.rows) > MANY:
        body = f"{lines}<details><summary>{len(section.rows):,} rows</summary>{table}</details>"
    return f'<section id="{name}"><h2>{title}</h2>{body}</section>'


def table_of(section: Section) -> str:
    """Returns a table whose columns can be sorted."""
    kinds = ["words" if k < section.left else "number" for k in range(len(section.header))]
    head = "".join(
        f'<th scope="col" class="{kind}"><button type="button">{escape(shown(name))}</button></th>'
        for name, kind in zip(section.header, kinds, strict=True)
    )
    body = "".join(f"<tr>{row_of(row, kinds)}</tr>" for row in section.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def row_of(row: Sequence[str], kinds: Sequence[str]) -> str:
    """Returns the cells of a row; the first one names it."""
    cells = [
        f'<td class="{kind}">{escape(shown(" ".join(cell.split())))}</td>'
        for cell, kind in zip(row[1:], kinds[1:], strict=True)
    ]
    return f'<th scope="row">{escape(shown(row[0]))}</th>' + "".join(cells)


def report_file(name: str) -> str:
    """Returns the style or the script that pages of sections share: `report.css` or `report.js`."""
    return (resources.files("ncp_control.base") / "static" / name).read_text(encoding="utf-8")
