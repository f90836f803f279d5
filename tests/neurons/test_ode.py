"""Cells of an ODE: which synapses their neurons hear."""

from typing import Any

import pytest
import torch

from helpers.cell_values import changed, drawn
from ncp_control.neurons import CTRNN, LTC, NeuralLTC, NeuralODE
from ncp_control.wiring import AutoNCP, GapJunctions


@pytest.mark.parametrize(
    "make",
    [
        lambda plan: LTC(2, plan, unfolds=1),
        lambda plan: NeuralLTC(2, plan, unfolds=1),
        lambda plan: CTRNN(2, plan, unfolds=1),
        lambda plan: NeuralODE(2, plan, unfolds=1, solver="euler"),
    ],
    ids=["ltc", "neural-ltc", "ctrnn", "neural-ode"],
)
def test_an_ode_cell_hears_its_synapses_and_nothing_else(make: Any) -> None:
    cell = make(GapJunctions(AutoNCP(9, 2, seed=5), 2))
    wiring = cell.wiring
    joined = {tuple(pair) for pair in wiring.gap_junctions.tolist()} if isinstance(cell, LTC) else set()
    inputs, state = drawn(cell)
    with torch.no_grad():
        for i in range(2):
            moved = inputs.clone()
            moved[:, i] += 0.3
            assert changed(cell, (inputs, state), (moved, state)) == {t for s, t, _ in wiring.sensory if s == i}
        for n in range(9):
            moved = state.clone()
            moved[:, n] += 0.3
            expected = {n} | {t for s, t, _ in wiring.synapses if s == n}
            expected |= {b for a, b in joined if a == n} | {a for a, b in joined if b == n}
            assert changed(cell, (inputs, state), (inputs, moved)) == expected
