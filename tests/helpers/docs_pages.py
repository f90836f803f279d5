"""The pages that users read: README.md, CONTRIBUTING.md, CHANGELOG.md and docs/, and what is in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARDS = sorted((ROOT / "checkpoints").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```([a-z]*)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SHELL = ("sh", "bash", "")


def name_of(page: Path) -> str:
    """The page's path in the repository, which is also the name of its test."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in these languages, in order; "" is a block that names none."""
    return [code for language, code in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def block_lines(page: Path) -> Iterator[list[str]]:
    """Every command line in a page's blocks, as words; comments are left out."""
    for block in blocks(page, *SHELL):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def inline_lines(page: Path) -> Iterator[list[str]]:
    """Every command line in a page's text, in backticks, as words."""
    for code in re.findall(r"`([^`\n]+)`", prose(page)):
        if re.match(r"(ncp-control|python|make) ", code):
            yield shlex.split(code)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as links name them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def with_checkpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `folder` the current one, with the shipped checkpoints in it, as at the project's root."""
    (folder / "checkpoints").symlink_to(ROOT / "checkpoints")
    monkeypatch.chdir(folder)
