"""YAML of plain values: text, numbers, lists and dictionaries, not too many of them. Nothing in it is run as code."""

from __future__ import annotations

import math
from typing import Any

import yaml

MOST, DEEPEST = 10_000, 50  # values, once repeated ones are written out, and levels


def read_yaml(text: str, where: str) -> Any:
    """The values in a text.

    :param where: what to call the text in a message
    """
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        if node is not None:
            size_of(node, {}, 0)
        found = yaml.safe_load(text)
        check_plain(found)
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{where} is not YAML of plain values: {words or type(error).__name__}") from error
    return found


def size_of(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """How many values a node stands for, each repetition (`*name`) counted again.

    :param known: sizes of nodes; 0 of those around this one
    """
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("a value holds itself")
        return known[id(node)]
    if depth > DEEPEST:
        raise ValueError(f"it has more than {DEEPEST} levels")
    known[id(node)] = 0
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    size = 1 + sum(size_of(part, known, depth + 1) for part in parts)
    if size > MOST:
        raise ValueError(f"it stands for more than {MOST:,} values")
    known[id(node)] = size
    return size


def check_plain(value: Any) -> None:
    """Refuses what JSON has no form for."""
    if isinstance(value, dict):
        for key, own in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not text")
            check_plain(own)
    elif isinstance(value, list):
        for own in value:
            check_plain(own)
    elif isinstance(value, float) and math.isnan(value):
        raise ValueError("nan is no value of anything")
    elif value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is neither text nor a number")
