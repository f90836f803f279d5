"""The CfC: its closed form by hand, and which synapses its neurons hear."""

import math

import pytest
import torch

from helpers.cell_values import changed, drawn, sigmoid
from helpers.cells import DEEP_9, DENSE_5, NCP_7, RANDOM_5, build
from ncp_control.neurons import Cell, CfC
from ncp_control.wiring import AutoNCP, Plan


def cfc_by_hand(cell: CfC, inputs: list[float], old: list[float], elapsed: float) -> list[float]:
    """Computes the closed form neuron by neuron: earlier layers count with this step's value, others with the last."""
    wiring, new = cell.wiring, list(old)
    layer_of = {n: k for k, part in enumerate(wiring.layers.values()) for n in range(part.start, part.stop)}
    sensory = list(wiring.sensory)
    pairs = {(s, t) for s, t, _ in wiring.synapses} | {(n, n) for n in range(cell.units)}
    recurrent = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    for j in range(cell.units):
        maps = cell.bias[:, j].tolist()
        for h in range(len(maps)):
            for e, (s, t, _) in enumerate(sensory):
                maps[h] += cell.sensory_weight[h, e].item() * inputs[s] if t == j else 0.0
            for e, (s, t) in enumerate(recurrent):
                heard = new[s] if layer_of[s] < layer_of[t] else old[s]
                maps[h] += cell.weight[h, e].item() * heard if t == j else 0.0
        if cell.mode == "pure":
            A, rate = cell.A[j].item(), abs(cell.w_tau[j].item()) + abs(maps[0])
            new[j] = A - A * math.exp(-elapsed * rate) * maps[0]
        else:
            f1, f2, s = math.tanh(maps[0]), math.tanh(maps[1]), sigmoid(maps[2] * elapsed + maps[3])
            new[j] = f1 * (1 - s) + s * f2 if cell.mode == "default" else f1 + s * f2
    return new


@pytest.mark.parametrize("mode", ["default", "no_gate", "pure"])
@pytest.mark.parametrize("plan", [NCP_7, DEEP_9, DENSE_5, RANDOM_5], ids=["ncp", "deep", "dense", "random"])
def test_cfc_by_hand(plan: Plan, mode: str) -> None:
    cell = CfC(2, plan, mode=mode).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    inputs, state = drawn(cell)
    found = cell.step(inputs, state, 0.7)
    for row in range(3):
        expected = cfc_by_hand(cell, inputs[row].tolist(), state[row].tolist(), 0.7)
        assert found[row].tolist() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("mode", ["default", "no_gate", "pure"])
def test_cfc_with_a_backbone_by_hand(mode: str) -> None:
    cell = CfC(2, 3, mode=mode, backbone=(7, 5)).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    inputs, state = drawn(cell)
    x = torch.cat([inputs, state], dim=1)
    for layer in cell.backbone:
        x = 1.7159 * torch.tanh(0.666 * (x @ layer.weight.T + layer.bias))
    maps = [x @ cell.head[3 * h : 3 * h + 3].T + cell.bias[h] for h in range(cell.maps)]
    if mode == "pure":
        expected = cell.A - cell.A * torch.exp(-0.7 * (cell.w_tau.abs() + maps[0].abs())) * maps[0]
    else:
        f1, f2, s = maps[0].tanh(), maps[1].tanh(), torch.sigmoid(0.7 * maps[2] + maps[3])
        expected = f1 * (1 - s) + s * f2 if mode == "default" else f1 + s * f2
    torch.testing.assert_close(cell.step(inputs, state, 0.7), expected)


def reached(cell: Cell, neurons: set[int], sensory: set[int]) -> set[int]:
    """Returns the neurons that a changed state or input reaches in one CfC step, layer by layer."""
    new: set[int] = set()
    for part in cell.wiring.layers.values():
        layer = range(part.start, part.stop)
        hit = {t for s, t, _ in cell.wiring.sensory if t in layer and s in sensory} | (neurons & set(layer))
        hit |= {t for s, t, _ in cell.wiring.synapses if t in layer and s in (new if s < part.start else neurons)}
        new |= hit
    return new


@pytest.mark.parametrize("name", ["cfc-default", "cfc-no_gate", "cfc-pure", "cfc-chain"])
def test_a_cfc_hears_its_synapses_and_nothing_else(name: str) -> None:
    cell = build(name, torch.float64, shaken=0.3)
    inputs, state = drawn(cell)
    sizes = set()
    with torch.no_grad():
        for i in range(cell.inputs):
            moved = inputs.clone()
            moved[:, i] += 0.3
            assert changed(cell, (inputs, state), (moved, state)) == reached(cell, set(), {i})
        for n in range(cell.units):
            moved = state.clone()
            moved[:, n] += 0.3
            expected = reached(cell, {n}, set())
            assert changed(cell, (inputs, state), (inputs, moved)) == expected
            sizes.add(len(expected))
    assert cell.wiring.motor.stop - 1 in reached(cell, set(), set(range(cell.inputs)))
    assert max(sizes) > 1
    assert min(sizes) < cell.units


def test_cfc_hears_command_recurrence() -> None:
    """A command neuron's next state depends on another one's state exactly where there is a synapse."""
    cell = CfC(2, AutoNCP(12, 2, seed=4))
    command = cell.wiring.layers["command"]
    pairs = {(s, t) for s, t, _ in cell.wiring.synapses}
    inputs, state = torch.randn(1, 2), torch.randn(1, 12)
    jacobian = torch.autograd.functional.jacobian(lambda s: cell.step(inputs, s)[0], state)[:, 0]
    recurrent = 0
    for t in range(command.start, command.stop):
        for s in range(command.start, command.stop):
            if s != t:
                assert bool(jacobian[t, s]) == ((s, t) in pairs)
                recurrent += (s, t) in pairs
    assert recurrent > 0
