"""The pages about the house and about upgrading tell what the code says."""

import re

from helpers.docs_pages import ROOT
from ncp_control.base.imports import MOVED


def rows(page: str) -> list[list[str]]:
    """The cells of every row of a page's tables."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_table_of_floors_is_the_one_that_is_checked() -> None:
    checked = re.findall(
        r'^    "([\w.]+)": (\d),$', (ROOT / "tests" / "test_floors.py").read_text(), flags=re.MULTILINE
    )
    told = {
        (name, cells[0])
        for cells in rows("house.md")
        if cells[0].isdigit()
        for name in re.findall(r"`(\w+)`", cells[1])
    }
    assert len(checked) > 10
    assert told == {(name.removeprefix("ncp_control."), floor) for name, floor in checked if name != "ncp_envs"}


def test_the_picture_shows_every_room() -> None:
    picture = (ROOT / "docs" / "pictures" / "house.svg").read_text(encoding="utf-8")
    told = {name for cells in rows("house.md") if cells[0].isdigit() for name in re.findall(r"`(\w+)`", cells[1])}
    assert [name for name in sorted(told - {"_version"}) if f">{name}<" not in picture] == []


def test_every_module_that_moved_is_told() -> None:
    told = {(cells[0], cells[1]) for cells in rows("upgrading.md") if cells[0].startswith("`ncp_control.")}
    assert {(f"`ncp_control.{old}`", f"`ncp_control.{new}`") for old, new in MOVED.items()} <= told
