"""Values in YAML, as in recipes and after `--set`: a guard around a safe load, which accepts more than these need.

A few nested aliases make it build billions of values, so they are counted first. It also returns dates, bytes
and sets, so the types of the values are checked afterwards.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

MOST_VALUES, MOST_LEVELS = 10_000, 50
# A quoted text, or the inside of a tuple; parentheses right after a name are a call.
TUPLE = re.compile(r"""'[^']*'|"[^"]*"|(?<!\w)\(([^()'"]*,[^()'"]*)\)""")


class Loader(yaml.SafeLoader):
    """Reads 1e-3 as a number, as YAML 1.2 does; YAML 1.1 takes it for a text."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(text: str, where: str) -> Any:
    """Reads YAML of plain values, and refuses anything else.

    :param text: the YAML
    :param where: the text's name, for error messages
    """
    try:
        node = yaml.compose(text, Loader)
        if node is not None:
            _count_values(node, {}, 0)
        found = yaml.load(text, Loader)
        _check_plain(found)
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{where} is not YAML of plain values: {reason}") from error
    return found


def _count_values(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """Returns how many values a node stands for, with every alias (`*name`) counted as often as it appears.

    :param node: a part of the text
    :param known: the counts of nodes by their `id`; 0 for a node that is still being counted
    :param depth: the levels above the node
    """
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("a value holds itself")
        return known[id(node)]
    if depth > MOST_LEVELS:
        raise ValueError(f"it has more than {MOST_LEVELS} levels")
    known[id(node)] = 0
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    count = 1 + sum(_count_values(part, known, depth + 1) for part in parts)
    if count > MOST_VALUES:
        raise ValueError(f"it stands for more than {MOST_VALUES:,} values")
    known[id(node)] = count
    return count


def _check_plain(value: Any) -> None:
    """Refuses values of types that JSON does not have, and NaN."""
    if isinstance(value, dict):
        for key, own in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not text")
            _check_plain(own)
    elif isinstance(value, list):
        for own in value:
            _check_plain(own)
    elif isinstance(value, float) and math.isnan(value):
        raise ValueError("no setting can be nan")
    elif value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is neither text nor a number")


def read_changes(words: list[str], example: str = "policy_kwargs.cell=cfc") -> dict[str, Any]:
    """Reads new values that are written as KEY=VALUE, with the value in YAML, or a list as Python's tuple, (0.05, 4).

    :param words: the values with their keys
    :param example: one for the message that refuses another word
    """
    changes = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f"write a change as KEY=VALUE, such as {example}, not as {word!r}")
        changes[key] = read_yaml(_with_lists(value), word)
    return changes


def _with_lists(value: str) -> str:
    """Returns YAML with lists in the place of tuples, which YAML takes for text; a plan such as AutoNCP(8, 3) stays."""
    if not value.lstrip().startswith(("(", "[", "{")):
        return value
    before = ""
    while value != before:  # from the innermost tuple outwards
        before = value
        value = TUPLE.sub(lambda part: part[0] if part[1] is None else f"[{part[1]}]", value)
    return value
