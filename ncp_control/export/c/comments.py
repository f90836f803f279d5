"""Names that come from files, as comments and as identifiers of C. None of them can become code."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A comment could end at `*/`, a line could go on after a backslash, and `??/` is a backslash to some compilers.
UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:;=+()<>\[\]{}'-]")
LONGEST = 500
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_IDENTIFIER = 40  # C99 tells names apart by their first 63 characters, and a prefix is put before


def harmless(text: str) -> str:
    """Returns a text that can stand in a comment: one line of plain characters, with `_` for every other one."""
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return UNSAFE.sub("_", short)


def comment(lines: Sequence[str]) -> str:
    """Returns a comment of these lines."""
    return "/* " + "\n   ".join(harmless(line).rstrip() for line in lines) + " */\n"


def numbered_names(prefix: str, names: Sequence[str], first: int = 0) -> str:
    """Returns an enumeration of the names that C can have, `PREFIX_NAME = number`; the others are in comments only.

    Spaces, dots and hyphens become underscores.

    :param prefix: is put before every name
    :param names: the names, of which the k-th has the number `first + k`
    :param first: the first number
    """
    plain = [re.sub(r"[ .-]+", "_", name).upper() for name in names]

    def line_of(number: int, name: str, plain_name: str) -> str:
        usable = IDENTIFIER.fullmatch(plain_name) and len(name) <= LONGEST_IDENTIFIER and plain.count(plain_name) == 1
        return f"    {prefix}_{plain_name} = {number}," if usable else f"    /* {number}: {harmless(name)} */"

    lines = [line_of(number, *both) for number, both in enumerate(zip(names, plain, strict=True), first)]
    body = "\n".join(lines) + "\n"
    return f"enum {{\n{body}}};\n" if any(line.endswith(",") for line in lines) else body
