"""Observations and actions that a circuit cannot read or give are refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import refused_after_progress as refused
from helpers.odd_recipes import odd_recipe
from ncp_control.cli import main

pytest.importorskip("sb3_contrib")


@pytest.mark.parametrize("algo", ["RecurrentPPO", "RecurrentSAC"])
@pytest.mark.parametrize("space", ["image", "tuple", "text", "nested", "empty", "number", "sequence"])
def test_observations_that_no_circuit_reads(
    algo: str, space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = odd_recipe(tmp_path, algo, "false", observations=space)
    line = refused(capfd, "train", recipe, "--out", tmp_path / "run")
    assert "which no circuit reads" in line or "a circuit reads features, not images" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algo", "space"),
    [
        ("RecurrentPPO", "dict"), ("RecurrentPPO", "tuple"), ("RecurrentPPO", "unbounded"), ("RecurrentPPO", "empty"),
        ("RecurrentSAC", "discrete"), ("RecurrentSAC", "dict"), ("RecurrentSAC", "unbounded"),
    ],
)  # fmt: skip
def test_actions_that_no_circuit_gives(
    algo: str, space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = refused(capfd, "train", odd_recipe(tmp_path, algo, actions=space), "--out", tmp_path / "run")
    assert f"{algo} does not give actions of" in line or "have no bounds" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("space", ["discrete", "choices", "dict"])
def test_observations_that_become_vectors_are_learnt_from(space: str, tmp_path: Path) -> None:
    recipe = odd_recipe(tmp_path, "RecurrentPPO", "false", observations=space)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--eval-episodes", "1"]) == 0
    assert main(["evaluate", str(tmp_path / "run" / "best.safetensors"), "--episodes", "1"]) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normalize": "{norm_x: 1}"}, "normalize does not fit VecNormalize"),
        ({"normalize": "true", "observations": "discrete"}, "VecNormalize only supports"),
        ({"strange": 1}, "cannot be made"),
    ],
)
def test_recipes_that_cannot_be_built(
    change: dict[str, Any], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(capfd, "train", odd_recipe(tmp_path, **change), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
