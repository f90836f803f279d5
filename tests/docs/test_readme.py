"""The README's Python blocks run, in order, as a reader would paste them."""

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").symlink_to(README.parent / "checkpoints")
    names: dict[str, Any] = {}
    assert len(BLOCKS) >= 3
    for block in BLOCKS:
        exec(compile(block, str(README), "exec"), names)
    assert (tmp_path / "circuit.safetensors").exists()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    text = (README.parent / page).read_text()
    anchors = {
        re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)
    }
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("https://")]
    for link in links:
        path, _, anchor = link.partition("#")
        assert not path or (README.parent / path).exists(), link
        assert not anchor or anchor in anchors, link
    assert page != "README.md" or len(links) >= 6


def test_every_command_of_the_pages_exists() -> None:
    from ncp_control.cli import COMMANDS

    pages = [README, README.parent / "CONTRIBUTING.md", *(README.parent / "checkpoints").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    said = set(re.findall(r"ncp-control ([a-z]+)", text))
    assert said <= set(COMMANDS)
    assert set(COMMANDS) <= said
    for script in set(re.findall(r"python (scripts/[a-z_0-9/]+\.py)", text)):
        assert (README.parent / script).is_file(), script
