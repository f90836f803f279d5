"""Notes in files are read within bounds; each refusal names the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ncp_control as nc
from ncp_control.base.notes import read_note, write_note


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


HOSTILE: dict[str, tuple[Any, str]] = {
    "delay": (
        {"env_wrapper": [{"ActionDelay": {"steps": 10**12}}]},
        "env_wrapper.0.ActionDelay.steps is 1000000000000",
    ),
    "window": ({"env_wrapper": [{"History": {"window": 10**9}}]}, "env_wrapper.0.History.window is 1000000000"),
    "number as text": (
        {"env_wrapper": [{"History": {"window": "1e9"}}]},
        "History.window is 1e9, and may be 1,000,000",
    ),
    "digits": ({"env_wrapper": [{"History": {"window": 10**400}}]}, "env_wrapper.0.History.window is 10000"),
    "nested": ({"recipe": nested(500)}, "recipe.a.a.a.a"),
    "lists": ({"curve": json.loads("[" * 300 + "]" * 300)}, "curve.0.0.0"),
    "keys": ({"made": {f"key{k}": 0 for k in range(1_000_000)}}, "its note has 15,888,900 characters"),
    "entries": ({"curve": [0] * 1_200_000}, "curve has 1,200,000 entries, and may have 1,000,000"),
    "text": ({"made": {"command": "x" * 200_000}}, "made.command has 200,000 characters, and may have 100,000"),
    "key": ({"made": {"x" * 200_000: 1}}, "a key of made has 200,000 characters"),
    "long text": ({"command": "x" * 5_000_000}, "its note has 5,000,015 characters, and may have 4,000,000"),
}


@pytest.mark.system
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_note_that_could_fill_memory_or_screen_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    note, words = HOSTILE[kind]
    if kind == "entries":
        monkeypatch.setattr("ncp_control.base.notes.LONGEST_NOTE", 10**7)
    with pytest.raises(ValueError, match=r"^(?!.*\n)") as caught:
        read_note(json.dumps(note))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


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
    with pytest.raises(ValueError, match=r"made\.a\.a.* has more than 20 lists"):
        nc.save(nc.RNN(nc.GRU(2, 3)), tmp_path / "network.safetensors", {"made": nested(30)})
    assert list(tmp_path.iterdir()) == []
