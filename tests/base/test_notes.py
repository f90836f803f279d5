"""Notes in files have a bounded length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ncp_control as nc
from ncp_control.base.notes import read_note, write_note


def test_a_note_that_could_fill_the_memory_is_refused() -> None:
    for note, size in (
        ({"command": "x" * 5_000_000}, "5,000,015"),
        ({f"key{k}": 0 for k in range(10**6)}, "15,888,890"),
    ):
        with pytest.raises(ValueError, match=f"its note has {size} characters, and may have 4,000,000"):
            read_note(json.dumps(note))


@pytest.mark.system
def test_notes_that_people_write_are_kept() -> None:
    note = {
        "command": "ncp-control train x", "seed": 2**63, "steps": 10**12, "versions": {"torch": "2.0"}, "return": 1e9,
        "curve": [[k, -0.5 * k] for k in range(20_000)], "env_wrapper": ["History", {"Noise": {"seed": 2**40}}],
        "recipe": {"policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": []}}}, "none": None,
    }  # fmt: skip
    assert read_note(write_note(note)) == note
    assert read_note(write_note(None)) == {}


def test_a_note_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its note has"):
        nc.save(nc.RNN(nc.GRU(2, 3)), tmp_path / "network.safetensors", {"made": "x" * 5_000_000})
    assert list(tmp_path.iterdir()) == []
