"""Adds the pages that lie outside of docs/ to the site, and points links at the place where each page is on the site.

The links in README.md, CONTRIBUTING.md, docs/ and checkpoints/ are relative paths in the repository, so they work
wherever its files are shown. On the site README.md is the home page, and the others have a page each.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# The path in the repository, and the path on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"checkpoints/{card.name}": f"checkpoints/{card.name}" for card in sorted((ROOT / "checkpoints").glob("*.md"))},
    "scripts/whole.py": "scripts/whole.py",  # no page, but what the home page leads to
}
IN_REPOSITORY = {site: repository for repository, site in OUTSIDE.items()}
LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie outside of docs/."""
    for repository, site in OUTSIDE.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / repository)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replaces every relative link outside of code blocks by the one that leads to the same file on the site."""
    source = page.file.src_uri
    if source == "index.md":
        page.meta["hide"] = ["navigation"]  # its column would hold nothing but this page
    here = posixpath.dirname(IN_REPOSITORY.get(source, f"docs/{source}"))

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, link[2]))
        there = OUTSIDE.get(target, target.removeprefix("docs/"))
        return link[1] + posixpath.relpath(there, posixpath.dirname(source) or ".") + link[3]

    parts = FENCE.split(markdown)
    return "".join(part if index % 2 else LINK.sub(on_site, part) for index, part in enumerate(parts))
