"""Facts about a thing, two columns, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Prints names and values; nothing in them is taken for markup."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in rows:
        facts.add_row(escape(name), escape(value))
    Console(highlight=False).print(facts)
