"""The table of memory: every cell trains on every task, at about one size."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncp_control.rl.policies.circuit import actor_circuit
from ncp_control.rl.recipes.building import make_envs, make_model

pytestmark = pytest.mark.system


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("memory_table")


def test_the_cells_have_about_as_many_parameters_on_each_task(script: Any) -> None:
    for task in script.TASKS:
        sizes = {}
        for cell in script.CELLS:
            recipe = script.recipe_of(task, cell)
            model: Any = make_model(recipe, make_envs(recipe, 1, training=True), 0, "cpu")
            actor = actor_circuit(model.policy) or model.policy.mlp_extractor.policy_net
            sizes[cell] = sum(own.numel() for own in actor.parameters())
        assert max(sizes.values()) < 1.25 * min(sizes.values()), sizes


@pytest.mark.slow
def test_a_row_for_each_cell_and_a_column_for_each_task(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--tasks",
        "tmaze",
        "recall",
        "--cells",
        "cfc",
        "mlp",
        "--seeds",
        "0",
        "--steps",
        "2048",
        "--episodes",
        "4",
    ]
    monkeypatch.setattr(sys, "argv", ["memory_table.py", *words, "--json", str(tmp_path / "all.json")])
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second time, from the folders of the first
        script.main()
        printed = capsys.readouterr().out
        assert [word in printed for word in ("tmaze", "recall", "cfc", "mlp", "chance", "±")] == [True] * 6
        rows = json.loads((tmp_path / "all.json").read_text())
        assert [(row["task"], row["cell"]) for row in rows] == [
            ("tmaze", "cfc"), ("tmaze", "mlp"), ("recall", "cfc"), ("recall", "mlp"),
        ]  # fmt: skip
        assert all(-10 <= row["return"] <= 1 for row in rows)
    assert (tmp_path / "runs" / "memory" / "tmaze-cfc-s0" / "last.safetensors").exists()
