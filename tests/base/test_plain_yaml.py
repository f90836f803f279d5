"""Only YAML of plain values is read, and nothing that would fill the memory."""

from __future__ import annotations

import math

import pytest

from ncp_control.base.plain_yaml import MOST_LEVELS, MOST_VALUES, read_changes, read_yaml

BOMB = "a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n" + "".join(
    f"{name}: &{name} [{', '.join(10 * [f'*{last}'])}]\n" for last, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def test_plain_values_are_read() -> None:
    text = "a: 1\nb: [0.5, yes, null, .inf]\nc: &c {d: text}\ne: *c\n"
    assert read_yaml(text, "it") == {
        "a": 1,
        "b": [0.5, True, None, float("inf")],
        "c": {"d": "text"},
        "e": {"d": "text"},
    }
    assert read_yaml("", "it") is None
    assert read_yaml("[1e-3, -1.5E+3, .5e2, 1e400]", "it") == [0.001, -1500.0, 50.0, math.inf]
    assert read_yaml("[lin_1e-3, 1e, e5, 1e-3x]", "it") == ["lin_1e-3", "1e", "e5", "1e-3x"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 2026-01-01", "is neither text nor a number"),
        ("a: !!binary aGVsbG8=", "is neither text nor a number"),
        ("a: !!set {b, c}", "is neither text nor a number"),
        ("a: .nan", "no setting can be nan"),
        ("1: a", "the key 1 is not text"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: [", "while parsing"),
        ("&a [*a]", "a value holds itself"),
        ("[" * (MOST_LEVELS + 2) + "]" * (MOST_LEVELS + 2), f"more than {MOST_LEVELS} levels"),
        (f"[{', '.join(['0'] * MOST_VALUES)}]", f"more than {MOST_VALUES:,} values"),
        (BOMB, f"more than {MOST_VALUES:,} values"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_yaml(text, "recipe.yml")
    assert str(caught.value).startswith("recipe.yml is not YAML of plain values: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(0.05, 4)", [0.05, 4]),
        ("( 1e-3,2 )", [0.001, 2]),
        ("(64,)", [64]),
        ("((1, 2), 3)", [[1, 2], 3]),
        ("[(1, 2), [3]]", [[1, 2], [3]]),
        ("{time_constants: (0.05, 4), bounded: true}", {"time_constants": [0.05, 4], "bounded": True}),
        ("AutoNCP(8, 3)", "AutoNCP(8, 3)"),
        ("NCP((5, 4), 3, 2)", "NCP((5, 4), 3, 2)"),
        ("{wiring: 'NCP((5, 4), 3, 2)', rate: (1, 2)}", {"wiring": "NCP((5, 4), 3, 2)", "rate": [1, 2]}),
        ('["(1, 2)"]', ["(1, 2)"]),
        ("(1)", "(1)"),
        ("()", "()"),
    ],
)
def test_a_tuple_of_a_change_is_a_list(value: str, expected: object) -> None:
    assert read_changes([f"key={value}"]) == {"key": expected}


def test_a_tuple_without_an_end_is_what_it_was() -> None:
    assert read_changes(["key=(0.05, 4"]) == {"key": "(0.05, 4"}
    with pytest.raises(ValueError, match="is not YAML of plain values"):
        read_changes(["key=[(0.05, 4"])
