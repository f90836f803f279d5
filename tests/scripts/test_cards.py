"""A card is Markdown that stands beside the file that it describes."""

from __future__ import annotations

from pathlib import Path

from scripts.cards import card_text, duration, origin_of, table, write_card

CARD = """# agent

An agent.

| | |
|---|---|
| seed | 3 |
| file | small |

```python
load()
```

It is good.
"""


def test_a_card_has_title_description_facts_example_and_results(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    text = card_text(path, "An agent.", [("seed", "3"), ("file", "small")], "load()", "It is good.")
    assert text == CARD
    write_card(path, text)
    assert (tmp_path / "agent.md").read_text(encoding="utf-8") == CARD


def test_a_table_may_have_empty_titles_and_cells() -> None:
    assert table(("", "next"), [("a", "1"), ("b", "")]) == "| | next |\n|---|---|\n| a | 1 |\n| b |  |"


def test_the_origin_of_a_file_is_its_versions_size_and_checksum(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    path.write_bytes(bytes(123_456))
    assert origin_of(path, "0123456789abcdef" * 4, {"versions": {"torch": "2.13", "numpy": "2.4"}}) == [
        ("versions", "torch 2.13, numpy 2.4"),
        ("file", "0.12 MB, SHA-256 of its content 0123456789abcdef..."),
    ]
    assert duration(870) == "14 minutes, one thread"
