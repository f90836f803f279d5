"""A part of a certificate as a table and sentences, which a terminal, Markdown and a page show alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Rows = tuple[tuple[str, ...], ...]
Column = tuple[str, list[str]]


@dataclass(frozen=True)
class Section:
    """A part of a certificate: a heading, a table, and sentences below it. Names in it are as they are.

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
