"""The notes in files: JSON values that are bounded when they are read."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from ncp_control.base.text import shown

LONGEST_NOTE = 4_000_000  # characters; a curve of 100,000 points has fewer
LONGEST, MOST_ENTRIES, DEEPEST = 100_000, 1_000_000, 20  # of one text, of one list or object, and of lists in lists
# Of the wrappers of an environment, such as the steps of a delay or of a window. They keep as many observations.
WRAPPERS, LARGEST = "env_wrapper", 1_000_000


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
    note = read_object(text)
    check_note(note)
    check_wrappers(note.get(WRAPPERS), WRAPPERS)
    return note


def write_note(note: dict[str, Any] | None) -> str:
    """Returns the text of a note that `read_note` will read; other notes are refused."""
    text = json.dumps(note or {})
    read_note(text)
    return text


def check_note(value: Any, name: str = "", depth: int = 0) -> None:
    """Refuses a JSON value with a text, a list or an object that is too long, or with too many of them in each other.

    :param value: the value
    :param name: the keys that lead to it, for messages
    :param depth: how many lists and objects it is in
    """
    what = textwrap.shorten(shown(name[:200]), 80, placeholder="...") if name else "its note"
    if isinstance(value, str) and len(value) > LONGEST:
        raise ValueError(f"{what} has {len(value):,} characters, and may have {LONGEST:,}")
    if not isinstance(value, dict | list):
        return
    if len(value) > MOST_ENTRIES:
        raise ValueError(f"{what} has {len(value):,} entries, and may have {MOST_ENTRIES:,}")
    if depth == DEEPEST:
        raise ValueError(f"{what} has more than {DEEPEST} lists and objects in each other")
    for key, own in value.items() if isinstance(value, dict) else enumerate(value):
        check_note(key, f"a key of {what}", depth + 1)
        if isinstance(own, dict | list | str):
            check_note(own, f"{name}.{key}" if name else str(key), depth + 1)


def check_wrappers(value: Any, name: str) -> None:
    """Refuses a number in the arguments of wrappers that is larger than any use of them needs."""
    if isinstance(value, dict | list):
        for key, own in value.items() if isinstance(value, dict) else enumerate(value):
            check_wrappers(own, f"{name}.{key}")
        return
    try:
        size = abs(float(value))  # a recipe may give a number as text
    except (TypeError, ValueError, OverflowError):
        size = 2.0 * LARGEST if isinstance(value, int) else 0.0
    if LARGEST < size < math.inf and not name.endswith(".seed"):
        raise ValueError(f"{shown(name)} is {shown(str(value)[:40])}, and may be {LARGEST:,} at most")
