"""Random circuits as C: any cell, wiring, normalisation and layers take the same steps as the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ncp_control as nc
from helpers.c_programs import BareController, exported, greatest_difference, needs_compiler
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, CfC, DualLTC, LaggedMLP, NeuralLTC, NeuralODE
from ncp_control.wiring import FullyConnected, GapJunctions, Random

pytestmark = [needs_compiler, pytest.mark.system]
DENSE = (CTGRU, GRU, LSTM)
ACTIVATIONS = ("sigmoid", "relu", "tanh", "hard_tanh")


def random_plan(draw: np.random.Generator) -> Any:
    """A wiring of any kind, from one neuron to a few dozen."""
    seed, units = int(draw.integers(1000)), int(draw.integers(1, 24))
    outputs = int(draw.integers(1, units + 1))
    plans = [FullyConnected(units, outputs, seed=seed)]
    if units > outputs:
        plans.append(Random(units, outputs, sparsity=float(draw.uniform(0, 0.7)), seed=seed))
    if units > outputs + 3:
        plans.append(nc.AutoNCP(units, outputs, seed=seed))
    plan = plans[int(draw.integers(len(plans)))]
    pairs = units * (units - 1) // 2
    return GapJunctions(plan, int(draw.integers(1, min(pairs, 9) + 1)), seed=seed) if pairs else plan


def random_cell(draw: np.random.Generator) -> nc.Cell:
    """A cell with any settings that have a C form."""
    inputs, unfolds = int(draw.integers(1, 12)), int(draw.integers(1, 5))
    kinds = (LTC, LTC, LTC, NeuralLTC, CTRNN, NeuralODE, CfC, CfC, DualLTC, LSTM, GRU, CTGRU, LaggedMLP)
    kind = kinds[int(draw.integers(len(kinds)))]
    solver = ("fused", "euler", "rk4")[int(draw.integers(3))]
    units = int(draw.integers(1, 12))
    if kind in DENSE:
        return kind(inputs, FullyConnected(units, int(draw.integers(1, units + 1))))
    if kind is LaggedMLP:
        return LaggedMLP(inputs, units, lags=int(draw.integers(1, 5)))
    if kind is CfC:
        mode = ("default", "no_gate", "pure")[int(draw.integers(3))]
        if draw.random() < 0.3:
            return CfC(
                inputs, units, mode=mode, backbone=[int(one) for one in draw.integers(1, 9, draw.integers(1, 4))]
            )
        return CfC(inputs, without_gaps(random_plan(draw)), mode=mode)
    if kind is DualLTC:
        return DualLTC(inputs, without_gaps(random_plan(draw)), brake=bool(draw.random() < 0.7))
    slow = (1.0, 9.0)  # with fast neurons, an explicit solver lets rounding grow from step to step
    if kind is LTC:
        maps = [("affine", "linear", "none")[int(one)] for one in draw.integers(3, size=2)]
        times = slow if solver != "fused" else None
        return LTC(inputs, random_plan(draw), solver=solver, unfolds=unfolds, init="centred", time_constants=times,
                   input_map=maps[0], output_map=maps[1])  # fmt: skip
    settings: dict[str, Any] = {"solver": solver, "unfolds": unfolds, "activation": ACTIVATIONS[int(draw.integers(4))]}
    if kind is not NeuralODE:
        settings["time_constants"] = slow
    return kind(inputs, without_gaps(random_plan(draw)), **settings)


def without_gaps(plan: Any) -> Any:
    return plan.plan if isinstance(plan, GapJunctions) else plan


def random_head(draw: np.random.Generator, outputs: int) -> nn.Module:
    """Up to three layers, some of them nested."""
    layers: list[nn.Module] = []
    for _ in range(int(draw.integers(4))):
        width = int(draw.integers(1, 9))
        kinds = (nn.Tanh(), nn.ReLU(), nn.ELU(), nn.SiLU(), nn.Hardtanh(-0.5, 2.0), nn.Identity())
        layers += [nn.Linear(outputs, width, bias=bool(draw.random() < 0.7)), nn.Sequential(kinds[draw.integers(6)])]
        outputs = width
    return nn.Sequential(nn.Sequential(*layers), nn.Tanh()) if draw.random() < 0.3 else nn.Sequential(*layers)


def random_controller(seed: int) -> BareController:
    draw = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = random_cell(draw)
        for parameter in cell.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        head = random_head(draw, cell.outputs)
    controller = BareController(cell, head)
    actions = len(controller.actions)
    if draw.random() < 0.3:
        controller.chooses, controller.first = True, int(draw.integers(-2, 3))
    elif draw.random() < 0.7:
        controller.low, controller.high = -torch.rand(actions) - 0.1, torch.rand(actions) + 0.1
        controller.squashes = bool(draw.random() < 0.5)
    return controller


def circuits() -> list[Any]:
    return [pytest.param(seed, marks=() if seed < 20 else pytest.mark.slow) for seed in range(200)]


@pytest.mark.parametrize("seed", circuits())
def test_a_random_circuit_takes_the_same_steps_in_c(seed: int, tmp_path: Path) -> None:
    controller = random_controller(seed)
    assert greatest_difference(controller, exported(controller, tmp_path, double=True), seed=seed) < 1e-12


def test_the_quick_circuits_are_of_many_kinds() -> None:
    made = [random_controller(seed) for seed in range(20)]
    cells = [one.rnn.cell for one in made if one.rnn is not None]
    assert len({type(cell) for cell in cells}) > 5
    assert any(len(cell.wiring.gap_junctions) for cell in cells)
    assert any(one.chooses for one in made)
    assert any(one.squashes for one in made)
