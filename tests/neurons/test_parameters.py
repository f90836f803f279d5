"""Parameters: how many there are, where they start, and that positive ones stay positive."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.cell_values import drawn
from helpers.cells import DEEP_9, GAPS_7, NCP_7, RANDOM_5, SOLITARY, ZOO, build
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, DualLTC, NeuralLTC, NeuralODE
from ncp_control.wiring import Plan


def count(cell: Cell, *but: str) -> int:
    return sum(value.numel() for key, value in cell.named_parameters() if key not in but)


@pytest.mark.parametrize("plan", [NCP_7, DEEP_9, RANDOM_5, GAPS_7], ids=["ncp", "deep", "random", "gaps"])
def test_parameters_exist_for_existing_synapses_only(plan: Plan) -> None:
    wiring = plan.build(3)
    synapses, units = len(wiring.sensory) + len(wiring.synapses), wiring.units
    assert synapses < units * (3 + units)
    maps = 2 * 3 + 2 * wiring.outputs
    assert count(LTC(3, wiring)) == 4 * synapses + 3 * units + len(wiring.gap_junctions) + maps
    without = {"input_map": "none", "output_map": "none"}
    assert count(LTC(3, wiring, **without)) == 4 * synapses + 3 * units + len(wiring.gap_junctions)
    linear = {"input_map": "linear", "output_map": "linear"}
    assert count(LTC(3, wiring, **linear)) == count(LTC(3, wiring)) - 3 - wiring.outputs
    assert count(NeuralLTC(3, wiring)) == synapses + 3 * units
    assert count(DualLTC(3, wiring)) == 2 * synapses + 3 * units
    assert count(DualLTC(3, wiring, brake=False)) == 2 * synapses + 2 * units
    assert count(CTRNN(3, wiring)) == synapses + 2 * units
    assert count(NeuralODE(3, wiring)) == synapses + units
    own = sum(s == t for s, t, _ in wiring.synapses)
    assert count(CfC(3, wiring)) == 4 * (synapses + units - own) + 4 * units
    assert count(CfC(3, wiring, mode="pure")) == synapses + units - own + 3 * units


@pytest.mark.parametrize(("k", "inputs"), [(4, 2), (7, 1)])
def test_parameter_counts_of_the_paper(k: int, inputs: int) -> None:
    """Table S2 of the 2021 paper counts the recurrent part and the neurons without the weights of the inputs."""
    sensory = ("sensory_w_raw", "sensory_sigma", "sensory_mu", "sensory_E")
    maps = ("input_scale", "input_shift", "output_scale", "output_shift")
    assert count(LTC(inputs, k), *sensory, *maps) == 4 * k**2 + 3 * k
    assert count(CTRNN(inputs, k), "gamma") == k**2 + 2 * k
    assert count(NeuralODE(inputs, k), "gamma") == k**2 + k
    assert count(LSTM(inputs, k), "weight_ih", "bias_hh") == 4 * k**2 + 4 * k
    assert count(GRU(inputs, k), "weight_ih", "bias_hh") == 3 * k**2 + 3 * k
    for m in (3, 8):
        from_inputs = (2 * m * k + k) * inputs
        assert count(CTGRU(inputs, k, scales=m)) - from_inputs == 2 * m * k**2 + 2 * m * k + k**2 + k


def test_the_baselines_are_solved_as_their_authors_did() -> None:
    assert (CTRNN(1, 1).solver, CTRNN(1, 1).unfolds, CTRNN(1, 1).activation) == ("euler", 6, "tanh")
    assert (NeuralODE(1, 1).solver, NeuralODE(1, 1).unfolds, NeuralODE(1, 1).activation) == ("rk4", 6, "tanh")
    torch.testing.assert_close(CTRNN(1, 3).tau, torch.ones(3))
    assert (LTC(1, 1).solver, LTC(1, 1).unfolds) == ("fused", 6)
    assert (NeuralLTC(1, 1).solver, NeuralLTC(1, 1).unfolds, NeuralLTC(1, 1).activation) == ("fused", 6, "sigmoid")
    assert CTGRU(1, 1).scales == 8


@pytest.mark.parametrize("make", [LTC, NeuralLTC, CTRNN])
@pytest.mark.parametrize("plan", [NCP_7, GAPS_7, SOLITARY], ids=["ncp", "gaps", "solitary"])
def test_time_constants_spread_over_the_range_asked_for(make: Any, plan: Plan) -> None:
    inputs = 1 if plan is SOLITARY else 3
    cell = make(inputs, plan, time_constants=(0.2, 50.0))
    if isinstance(cell, LTC):
        half_open = cell.gleak.detach().clone()
        for w, synapses in ((cell.w, cell.wiring.synapses), (cell.sensory_w, cell.wiring.sensory)):
            for e, (_, target, _sign) in enumerate(synapses):
                half_open[target] += 0.5 * w[e].detach()
        for g, (a, b) in enumerate(cell.wiring.gap_junctions.tolist()):
            half_open[a] += cell.gap[g].detach()
            half_open[b] += cell.gap[g].detach()
        found = cell.cm / half_open
    else:
        found = cell.tau
    expected = np.geomspace(0.2, 50.0, cell.units) if cell.units > 1 else [math.sqrt(0.2 * 50.0)]
    assert sorted(found.tolist()) == pytest.approx(list(expected), rel=1e-4)
    for wrong in ((0.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (1.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(ValueError, match=r"time_constants must be \(shortest, longest\) with 0 < shortest"):
            make(inputs, plan, time_constants=wrong)


@pytest.mark.parametrize("name", ZOO)
def test_the_seed_decides_every_parameter(name: str) -> None:
    cells = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        cells.append(ZOO[name]())
    same = [torch.equal(a, b) for a, b in zip(cells[0].parameters(), cells[1].parameters(), strict=True)]
    assert all(same)
    assert not all(torch.equal(a, b) for a, b in zip(cells[0].parameters(), cells[2].parameters(), strict=True))


def positives(cell: Cell) -> dict[str, Tensor]:
    return {
        name.removesuffix("_raw"): getattr(cell, name.removesuffix("_raw"))
        for name, value in cell.named_parameters()
        if name.endswith("_raw") and value.numel()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("raw", [-1e4, -200.0, -90.0, -20.0, 20.0, 1e4])
@pytest.mark.parametrize("name", ["ltc-gaps", "ltc-dense", "neural-ltc-sigmoid", "ctrnn-fused"])
def test_positive_parameters_stay_positive_wherever_training_drives_them(
    name: str, raw: float, dtype: torch.dtype
) -> None:
    cell = build(name, dtype)
    keys = [key for key, value in cell.named_parameters() if key.endswith("_raw") and value.numel()]
    assert keys
    for key in keys:
        driven = copy.deepcopy(cell)
        with torch.no_grad():
            getattr(driven, key).fill_(raw)
        for value in positives(driven).values():
            assert (value > 0).all()
            assert value.isfinite().all()
        inputs, state = drawn(driven)
        after = driven.step(inputs, state, 0.5)
        assert after.isfinite().all()
        assert (driven.time_constants(inputs, state) > 0).all()
        after.sum().backward()
        for parameter in driven.parameters():
            if parameter.grad is not None:
                assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "ctrnn-fused"])
def test_positive_parameters_survive_a_wild_optimizer(name: str) -> None:
    cell = build(name)
    optimizer = torch.optim.SGD(cell.parameters(), lr=1e4)
    for sign in (1, -1, 1, -1):
        inputs, state = drawn(cell)
        optimizer.zero_grad()
        (sign * cell.step(inputs, state).pow(2).sum()).backward()
        optimizer.step()
        for value in positives(cell).values():
            assert (value > 0).all()
