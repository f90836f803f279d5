"""How the API pages read docstrings: examples become code blocks, and a NamedTuple's fields become its parameters."""

from __future__ import annotations

import re
from typing import Any

import griffe

LITERAL = re.compile(r"::$", flags=re.MULTILINE)
DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).+\n?)*)+", flags=re.MULTILINE)


class OurDocstrings(griffe.Extension):
    """Changes objects while griffe reads the source, before their docstrings are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Writes doctests, and the "::" before an indented block, as Markdown does."""
        if obj.docstring:
            text = LITERAL.sub(":", obj.docstring.value)
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Gives a NamedTuple the constructor that Python makes of its fields."""
        if any(str(base) == "NamedTuple" for base in cls.bases):
            fields = [item for item in cls.members.values() if item.is_attribute]
            kind = griffe.ParameterKind.positional_or_keyword
            parameters = [
                griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)
                for field in fields
            ]
            cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))
