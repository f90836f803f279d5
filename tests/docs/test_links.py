"""Every link of the pages leads somewhere, and every page is on the site."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlparse

import pytest

from helpers.docs_pages import CARDS, PAGES, ROOT, anchors, name_of, prose

LINK = re.compile(r"\]\(([^)\s]+)\)")
# Where the pages that lie outside of docs/ are on the site.
ON_SITE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


OF_TODAY = [page for page in PAGES if page.name not in ("CHANGELOG.md", "upgrading.md")]


@pytest.mark.parametrize("page", [*PAGES, *CARDS], ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if "://" in link:
            address = urlparse(link)
            assert address.scheme == "https", link
            assert "." in address.netloc, link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", OF_TODAY, ids=name_of)
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    for name in re.findall(r"`((?:ncp_control|envs|scripts|tests|docs|checkpoints)/[\w/.-]*)`", prose(page)):
        path = ROOT / name
        assert path.exists() or path.with_suffix(".safetensors").exists(), name
    for name in re.findall(r"`((?:ncp_control|ncp_envs)(?:\.\w+)+)`", prose(page)):
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or find_spec(name), name


def test_the_readme_leads_to_every_guide() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(prose(ROOT / "README.md"))}
    assert set((ROOT / "docs" / "guides").glob("*.md")) <= linked
    assert {path for path in (ROOT / "docs").glob("*.md")} <= linked


def test_every_page_is_on_the_site() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pages = {ON_SITE.get(name_of(page), name_of(page).removeprefix("docs/")) for page in [*PAGES, *CARDS]}
    assert set(listed) == pages
    assert len(listed) == len(pages)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250
