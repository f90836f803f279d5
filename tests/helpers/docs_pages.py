"""The pages that users read: README.md, CONTRIBUTING.md, CHANGELOG.md and docs/, and what is in them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARDS = sorted((ROOT / "checkpoints").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```([a-z]*)([^\n]*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
SHELL = ("sh", "bash", "")


class Block(NamedTuple):
    """A code block of a page.

    line: the number of the code's first line
    language: empty if the block names none
    file: the name of the file that the block is, its `title`; empty for code to paste
    code: what is in it
    """

    line: int
    language: str
    file: str
    code: str


def name_of(page: Path) -> str:
    """The page's path in the repository, which is also the name of its test."""
    return page.relative_to(ROOT).as_posix()


def all_blocks(page: Path) -> Iterator[Block]:
    """Every code block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        title = TITLE.search(fence[2])
        yield Block(text.count("\n", 0, fence.start(3)) + 1, fence[1], title[1] if title else "", fence[3])


def blocks(page: Path, *languages: str) -> list[str]:
    """The code of a page's blocks in these languages, in order; "" is a block that names none."""
    return [block.code for block in all_blocks(page) if block.language in languages]


def run_apart(page: Path, folder: Path) -> str:
    """Runs the Python of a page in a process of its own, whose home is a folder, and returns what it prints.

    Other people's libraries change the process that they are in, and write into the user's home.
    """
    code = "\n".join(blocks(page, "python"))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HOME": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """Every command line of a block of shell, with the number of its first line; a continued line is joined."""
    number, text = block.line, ""
    for place, line in enumerate(block.code.splitlines(), start=block.line):
        text += line.lstrip()
        if text.endswith("\\"):
            text = text[:-1]
            continue
        if shlex.split(text, comments=True):
            yield number, text
        number, text = place + 1, ""


def block_lines(page: Path) -> Iterator[list[str]]:
    """Every command line in a page's blocks, as words; comments are left out."""
    for block in all_blocks(page):
        if block.language in SHELL:
            for _, line in commands(block):
                yield shlex.split(line, comments=True)


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
