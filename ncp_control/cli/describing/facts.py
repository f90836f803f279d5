"""Names and values in two columns, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ncp_control.base.text import shown


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Prints names and values as they are: brackets are no markup, and control characters do nothing."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in rows:
        facts.add_row(escape(shown(name)), escape(shown(value)))
    Console(highlight=False).print(facts)


def rows_of(note: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Turns a file's note into rows for `show`; long tables in it are only counted."""
    return [
        (str(key).replace("_", " "), str(value) if key == "seed" else words(value))
        for key, value in note.items()
        if value not in (None, "")
    ]


def words(value: Any) -> str:
    """Puts a JSON value into one line."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e3 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        each = (
            (key, f"({words(entry)})" if isinstance(entry, Mapping) and entry else words(entry))
            for key, entry in value.items()
        )
        return ", ".join(f"{key} {entry}" for key, entry in each) or "none"
    if isinstance(value, list):
        if any(isinstance(entry, list | dict) and len(entry) > 1 for entry in value):
            return f"{len(value)} entries: --json shows them"
        return ", ".join(map(words, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
