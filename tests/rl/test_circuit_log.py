"""What TensorBoard shows of a circuit while it learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.rl.circuit_log import statistics
from ncp_control.rl.policies.circuit import Circuit
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_control.rl.training import train


@pytest.mark.parametrize("cell", ["ltc", "lstm", "ctgru"])
def test_dead_and_saturated_neurons_are_counted(cell: str) -> None:
    circuit = Circuit(3, 6, cell)
    features = torch.randn(4, 50, 3)
    starts = torch.zeros(4, 50, dtype=torch.bool)
    states = circuit.cell.initial_state(4)
    alive = statistics(circuit, features, states, starts)
    assert alive["dead"] == 0
    if cell != "ltc":  # which has a potential of its own to go to
        with torch.no_grad():
            for parameter in circuit.cell.parameters():
                parameter.zero_()
        assert statistics(circuit, features, states, starts)["dead"] == 6


@pytest.mark.system
@pytest.mark.parametrize(("name", "actor"), [("ppo", "lstm_actor"), ("sac", "actor")])
def test_tensorboard_shows_the_circuit(name: str, actor: str, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(load_recipe(recipe_file(tmp_path, RECIPES[name])), tmp_path / "run", **QUIET)
    board = EventAccumulator(str(tmp_path / "run" / "board"))
    board.Reload()
    tags = set(board.Tags()["scalars"])
    assert {"circuit/dead", "circuit/saturated", "circuit/tau_median", f"gradients/{actor}", "eval/mean_return"} <= tags
    assert {"ppo": "train/std", "sac": "train/ent_coef"}[name] in tags
    low, middle, high = (board.Scalars(f"circuit/tau_{name}")[0].value for name in ("min", "median", "max"))
    assert 0 < low <= middle <= high
