"""The README's Python blocks run, in order, as a reader would paste them."""

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").symlink_to(README.parent / "checkpoints")
    names: dict[str, Any] = {}
    assert len(BLOCKS) >= 3
    for block in BLOCKS:
        exec(compile(block, str(README), "exec"), names)
    assert (tmp_path / "circuit.safetensors").exists()
