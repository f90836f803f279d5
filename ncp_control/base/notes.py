"""The notes in files: JSON objects of a bounded length."""

from __future__ import annotations

import json
from typing import Any

LONGEST_NOTE = 4_000_000  # characters; a curve of 100,000 points has fewer


def read_object(text: str) -> dict[str, Any]:
    """Reads a JSON object."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"there should be a JSON object, not a {type(found).__name__}")
    return found


def read_note(text: str) -> dict[str, Any]:
    """Reads the note in a file; one that could fill the memory or a screen is refused."""
    if len(text) > LONGEST_NOTE:
        raise ValueError(f"its note has {len(text):,} characters, and may have {LONGEST_NOTE:,}")
    return read_object(text)


def write_note(note: dict[str, Any] | None) -> str:
    """Returns the text of a note that `read_note` will read; other notes are refused."""
    text = json.dumps(note or {})
    read_note(text)
    return text
