"""A policy that is given no settings learns a task that other packages ask of their own defaults."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.off_policy_models import build as build_off_policy
from helpers.on_policy_models import build as build_on_policy
from scripts.benchmark_defaults import cartpole, identity


def test_a_policy_without_settings_learns_to_repeat_what_it_sees() -> None:
    """Random answers score 25."""
    assert identity(0, {}) >= 60


@pytest.mark.slow
def test_a_policy_without_settings_balances_a_pole_without_velocities() -> None:
    assert cartpole(0, {}) >= 450


@pytest.mark.parametrize("build", [build_on_policy, build_off_policy])
@pytest.mark.parametrize("version", ["0.1", "today"])
def test_a_model_that_names_no_cell_loads_with_the_cell_that_it_had(build: Any, version: str, tmp_path: Any) -> None:
    """Version 0.1 chose an LTC, and its files name neither the cell nor the default."""
    cell = {"0.1": "ltc", "today": "cfc"}[version]
    model = build(cell=cell).learn(16)
    del model.policy_kwargs["cell"]
    model.save(tmp_path / "model", exclude=["default_cell"] if version == "0.1" else None)
    loaded = type(model).load(tmp_path / "model", device="cpu")
    weights = [one.policy.state_dict() for one in (model, loaded)]
    assert weights[0].keys() == weights[1].keys()
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    loaded.save(tmp_path / "again")
    again = type(model).load(tmp_path / "again", device="cpu").policy.state_dict()
    assert all((weights[0][name] == again[name]).all() for name in weights[0])
