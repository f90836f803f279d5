"""Text that somebody else wrote, made harmless for where it is shown: a terminal, Markdown, or a table of CSV."""

from __future__ import annotations

import re

# The marks with which a cell of a spreadsheet begins that is calculated, and not shown.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
SPECIAL = re.compile(r"([\\`*\[\]<>|#~]|(?<!\w)_|_(?!\w))")


def shown(text: object) -> str:
    """Returns a text in one line, in which characters that are not printed stand as escapes such as `\\x1b`.

    A terminal or a page would obey them: they move the cursor, begin a line, colour, or turn the order of writing.
    """
    words = str(text)
    if words.isprintable():
        return words
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)


def markdown(text: object) -> str:
    """Returns a text that Markdown shows as it is, also in a cell of a table."""
    return SPECIAL.sub(r"\\\1", shown(text))


def markdown_code(text: object) -> str:
    """Returns a text as code in Markdown, also in a cell of a table."""
    words = shown(text).replace("|", r"\|")
    longest = max(map(len, re.findall("`+", words)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{words}{space}{fence}"


def csv_cell(text: str) -> str:
    """Returns a text for a table of CSV, in which no spreadsheet takes it for a formula."""
    return f"'{shown(text)}" if text.startswith(FORMULAS) else shown(text)


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Writes a number of things, such as `1 neuron` or `2 neurons`."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"
