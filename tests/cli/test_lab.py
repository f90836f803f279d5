"""`ncp-control lab` refuses what it could not write before it does anything else."""

import shutil
from pathlib import Path

import pytest

from helpers.command_line import refused
from helpers.laboratories import NOVEL


def test_no_file_that_is_read_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent = tmp_path / "agent.safetensors"
    shutil.copy(NOVEL, agent)
    before = agent.read_bytes()
    for words in ([str(agent)], [str(NOVEL), str(agent)], [str(NOVEL), "--wasm", str(agent)]):
        line = refused(capsys, "lab", *words, "--html", str(tmp_path / "." / "agent.safetensors"))
        assert f"--html would overwrite {agent}, which is read" in line
    assert agent.read_bytes() == before


def test_a_folder_that_does_not_exist_is_told_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "nowhere" / "lab.html"
    assert "does not exist" in refused(capsys, "lab", "no.safetensors", "--html", str(page))
    assert list(tmp_path.iterdir()) == []
