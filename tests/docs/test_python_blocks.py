"""The Python blocks of a page run, in order, as a reader would paste them."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.docs_pages import PAGES, ROOT, blocks, name_of, run_apart, with_checkpoints
from helpers.simulator import simulator_or_skip

WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
LONG = re.compile(r"\.learn\(\d\d_\d{3}\)")  # what takes half a minute to learn
TIERS: dict[str, Any] = {"README.md": ()}
CLIENTS = yaml.safe_load((ROOT / "tests" / "integrations" / "clients.yml").read_text(encoding="utf-8"))


def test_the_guides_have_python_in_them() -> None:
    assert {"README.md", "docs/extending.md", "docs/guides/agents.md", "docs/guides/robot.md"} <= {
        name_of(page) for page in WITH_PYTHON
    }


def tier_of(page: Path) -> Any:
    """The tier of a page; that of a library whose name it has needs this library."""
    return pytest.mark.clients if page.stem in CLIENTS else TIERS.get(page.name, pytest.mark.system)


@pytest.mark.parametrize("page", [pytest.param(page, marks=tier_of(page), id=name_of(page)) for page in WITH_PYTHON])
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("write_laboratory" in block for block in blocks(page, "python")):
        simulator_or_skip()
    with_checkpoints(tmp_path, monkeypatch)
    if page.stem in CLIENTS:
        run_apart(page, tmp_path)
        return
    names: dict[str, Any] = {"__name__": "pasted"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for block in blocks(page, "python"):
            exec(compile(LONG.sub(".learn(600)", block), str(page), "exec"), names)
    old = [one for one in caught if one.filename == str(page) and issubclass(one.category, DeprecationWarning)]
    assert [str(one.message) for one in old] == []


def test_the_recipe_of_the_page_is_one(tmp_path: Path) -> None:
    from ncp_control.rl import load_recipe
    from ncp_control.rl.recipes.building import make_env

    (tmp_path / "my-task.yml").write_text("\n".join(blocks(ROOT / "docs" / "extending.md", "yaml")))
    recipe = load_recipe(str(tmp_path / "my-task.yml"), {})
    assert recipe.env == "ncp/PendulumNoVel-v0"
    make_env(recipe.env, recipe.env_wrapper).close()
