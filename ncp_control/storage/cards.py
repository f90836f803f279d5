"""Cards: what a file of weights holds, how good it is and which command made it, as Markdown beside the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.support.text import markdown


def write_card(path: Path, text: str) -> None:
    """Writes a card beside the file that it describes.

    :param path: the `.safetensors` file
    :param text: the card
    """
    write_atomically(path.with_suffix(".md"), text.encode())


def card_text(path: Path, description: str, facts: Iterable[tuple[str, str]], example: str, results: str) -> str:
    """Returns a card as Markdown.

    :param path: the `.safetensors` file
    :param description: a sentence or two on what the file is and what it is for
    :param facts: names and values
    :param example: Python code that loads the file and uses it
    :param results: Markdown on how good it is
    """
    title = markdown(path.name.removesuffix(".safetensors"))
    return f"# {title}\n\n{description}\n\n{table(('', ''), facts)}\n\n```python\n{example}\n```\n\n{results}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    titles = "".join(f" {title} |" if title else " |" for title in head)
    return "\n".join([f"|{titles}", f"|{'---|' * len(head)}", *lines])


def origin_of(path: Path, sha256: str, note: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the facts on where a file comes from and what identifies it: its versions, size and checksum.

    :param path: the `.safetensors` file
    :param sha256: the checksum of its content
    :param note: the note in it, with `versions`
    """
    return [
        ("versions", markdown(", ".join(f"{name} {version}" for name, version in note["versions"].items()))),
        ("file", f"{path.stat().st_size / 1e6:.2f} MB, SHA-256 of its content {sha256[:16]}..."),
    ]


def duration(seconds: float) -> str:
    """Returns how long one thread worked, in words."""
    return f"{seconds / 60:.0f} minutes, one thread"
