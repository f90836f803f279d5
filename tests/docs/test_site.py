"""`make docs` builds a site without a warning, with every public class and function on its pages and in its search."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from helpers.docs_pages import ROOT

PACKAGES = (
    "ncp_control", "ncp_control.wiring", "ncp_control.neurons", "ncp_control.ops", "ncp_control.data",
    "ncp_control.dynamics", "ncp_control.rl", "ncp_control.distil", "ncp_control.activity",
    "ncp_control.activity.laboratory", "ncp_control.audit", "ncp_control.export", "ncp_envs",
)  # fmt: skip


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"]}
    assert any("AutoNCP" in entry["text"] for entry in index["docs"])
    for package in PACKAGES:
        page = f"api/{package.rpartition('.')[2]}.html"
        assert page in found
        module, text = import_module(package), (tmp_path / page).read_text(encoding="utf-8")
        described = [name for name in module.__all__ if callable(getattr(module, name))]
        assert described
        # A function of the same name as its module, such as `collect`, is described by its full name.
        ids = set(re.findall(rf'id="{package}\.([\w.]+)"', text))
        assert [name for name in described if not {name, f"{name}.{name}"} & ids] == []
