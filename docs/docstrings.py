"""How the API pages read the source: docstrings as Markdown, a NamedTuple's fields as parameters, all public names."""

from __future__ import annotations

import re
from importlib import import_module
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

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Takes the public names of a package from its import, where the source makes some of them, as of neurons."""
        if "__all__" in mod.members and not (mod.exports and all(isinstance(name, str) for name in mod.exports)):
            mod.exports = list(import_module(mod.path).__all__)

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
