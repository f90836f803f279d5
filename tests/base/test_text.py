"""Text of somebody else: shown as it is, and never obeyed."""

from __future__ import annotations

import pytest

from ncp_control.base.text import csv_cell, markdown, markdown_code, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hip angle, °/s ∂θ 速度", "hip angle, °/s ∂θ 速度"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("two\nlines\r\tand\x00\x7f\x9b", "two\\nlines\\r\\tand\\x00\\x7f\\x9b"),
        ("abc\u202egnp.exe\u2066\u200f", "abc\\u202egnp.exe\\u2066\\u200f"),
        ("a\u2028b\ud800\U000e0041", "a\\u2028b\\ud800\\U000e0041"),
        (3.5, "3.5"),
        ("", ""),
    ],
)
def test_what_is_not_printed_is_shown_as_an_escape(text: object, expected: str) -> None:
    assert shown(text) == expected


def test_markdown_shows_a_text_as_it_is() -> None:
    assert markdown("ncp_envs:ncp/HalfCheetah-v5, 1.0") == "ncp_envs:ncp/HalfCheetah-v5, 1.0"
    assert markdown("a|b\n# <img src=x> [x](y) `c` *d* _e_") == (r"a\|b\\n\# \<img src=x\> \[x\](y) \`c\` \*d\* \_e\_")
    assert markdown_code("ncp-control train x --seed 1") == "`ncp-control train x --seed 1`"
    assert markdown_code("echo `id` | sh\n") == r"`` echo `id` \| sh\n ``"


def test_a_spreadsheet_calculates_nothing() -> None:
    for formula in ("=1+1", "+1", "-1", "@sum", "\tx", "\rx"):
        assert csv_cell(formula) == f"'{shown(formula)}"
    assert csv_cell("hip") == "hip"
