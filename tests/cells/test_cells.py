"""Each cell from outside: its equation by hand, its parameters, and what torch can do with it."""

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from helpers.cells import DEEP_9, DENSE_5, GAPS_7, NCP_7, RANDOM_5, SOLITARY, ZOO, build
from ncp_control.cells import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, MixedMemory, NeuralLTC, NeuralODE, make_cell
from ncp_control.cells.positive import raw_of
from ncp_control.ops import available_backends
from ncp_control.rnn import RNN
from ncp_control.wiring import AutoNCP, FullyConnected, GapJunctions, Plan, Wiring

SELF = Wiring.from_edges(1, motor=1, sensory=[(0, 0, -1)], synapses=[(0, 0)])


def drawn(cell: Cell, batch: int = 3) -> tuple[Tensor, Tensor]:
    """Random inputs (B, I) and states (B, N) in the cell's type."""
    inputs = torch.randn(batch, cell.inputs, dtype=cell.dtype)
    return inputs, torch.rand(batch, cell.state_size, dtype=cell.dtype) - 0.5


def exact(values: Any) -> Tensor:
    """Numbers as they are, in float64."""
    return torch.tensor(values, dtype=torch.float64)


def set_values(cell: nn.Module, **values: float | list[float]) -> None:
    """Sets parameters by their effective values; positive ones through what makes them so."""
    with torch.no_grad():
        for name, value in values.items():
            parameter = getattr(cell, f"{name}_raw", None)
            if parameter is not None:
                parameter.copy_(raw_of(exact(value)).expand_as(parameter))
            else:
                getattr(cell, name).copy_(exact(value).expand_as(getattr(cell, name)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_ltc_step_by_hand() -> None:
    cell = LTC(1, SELF).double()
    set_values(cell, cm=0.5, gleak=0.3, vleak=-0.1, w=0.8, sigma=4.0, mu=0.2, E=1.1)
    set_values(cell, sensory_w=0.6, sensory_sigma=3.0, sensory_mu=0.5, sensory_E=-0.9)
    set_values(cell, input_scale=2.0, input_shift=0.1, output_scale=3.0, output_shift=-0.2)
    x, v, elapsed, unfolds = 0.4, 0.25, 0.7, 6
    sensory = 0.6 * sigmoid(3.0 * (2.0 * x + 0.1 - 0.5))
    c = 0.5 / (elapsed / unfolds)
    for _ in range(unfolds):
        a = 0.8 * sigmoid(4.0 * (v - 0.2))
        v = (c * v + 0.3 * -0.1 + a * 1.1 + sensory * -0.9) / (c + 0.3 + a + sensory)
    state = cell.step(exact([[x]]), exact([[0.25]]), elapsed)
    assert state.item() == pytest.approx(v, rel=1e-9)
    assert cell.motor(state).item() == pytest.approx(3.0 * v - 0.2, rel=1e-9)
    found = cell.time_constants(exact([[x]]), exact([[0.25]]))
    assert found.item() == pytest.approx(0.5 / (0.3 + 0.8 * sigmoid(4.0 * 0.05) + sensory), rel=1e-9)


def test_gap_junction_step_by_hand() -> None:
    wiring = Wiring.from_edges(1, motor=2, sensory=[(0, 0)], gap_junctions=[(0, 1)])
    cell = LTC(1, wiring, unfolds=1).double()
    set_values(cell, cm=[0.5, 2.0], gleak=[0.3, 0.1], vleak=[0.2, -0.4], gap=0.7, sensory_w=1e-12)
    v, u, h = 0.3, -0.5, 0.6
    state = cell.step(torch.zeros(1, 1).double(), exact([[v, u]]), h)
    expected_v = (0.5 / h * v + 0.3 * 0.2 + 0.7 * u) / (0.5 / h + 0.3 + 0.7)
    expected_u = (2.0 / h * u + 0.1 * -0.4 + 0.7 * v) / (2.0 / h + 0.1 + 0.7)
    assert state[0].tolist() == pytest.approx([expected_v, expected_u], rel=1e-6)


def test_without_synapses_a_neuron_is_an_rc_circuit() -> None:
    """v decays to vleak with the time constant cm / gleak."""
    for solver, unfolds, allowed in (("dopri5", 1, 1e-6), ("rk4", 50, 1e-6), ("fused", 1000, 2e-3)):
        cell = LTC(1, SELF, solver=solver, unfolds=unfolds).double()
        set_values(cell, cm=0.8, gleak=0.4, vleak=-0.3, w=1e-12, sensory_w=1e-12)
        state = exact([[0.9]])
        for elapsed in (0.5, 2.0, 6.0):
            end = cell.step(torch.ones(1, 1).double(), state, elapsed).item()
            assert end == pytest.approx(-0.3 + 1.2 * math.exp(-elapsed / 2.0), abs=allowed)
    for found in cell.time_constants(torch.ones(1, 1).double(), state), *cell.time_constant_bounds():
        assert found.item() == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("sigmoid", sigmoid),
        ("relu", lambda z: max(z, 0.0)),
        ("tanh", math.tanh),
        ("hard_tanh", lambda z: min(max(z, -1.0), 1.0)),
    ],
)
def test_affine_cells_by_hand(activation: str, function: Any) -> None:
    for x in (0.4, 2.5, -3.0):
        f = function(0.7 * 0.25 - 1.3 * x + 0.5)
        inputs, state, h = exact([[x]]), exact([[0.25]]), 0.3
        common = {"gamma": -1.3, "gamma_r": 0.7, "mu": 0.5}

        liquid = NeuralLTC(1, SELF, activation=activation, unfolds=1).double()
        set_values(liquid, **common, tau=0.6, A=1.7)
        expected = (0.25 + h * f * 1.7) / (1 + h * (1 / 0.6 + f))
        assert liquid.step(inputs, state, h).item() == pytest.approx(expected, rel=1e-9)
        assert liquid.time_constants(inputs, state).item() == pytest.approx(0.6 / (1 + 0.6 * f), rel=1e-9)

        ctrnn = CTRNN(1, SELF, activation=activation, unfolds=1).double()
        set_values(ctrnn, **common, tau=0.6)
        assert ctrnn.step(inputs, state, h).item() == pytest.approx(0.25 + h * (f - 0.25 / 0.6), rel=1e-9)
        assert ctrnn.time_constants(inputs, state).item() == pytest.approx(0.6, rel=1e-9)

        ode = NeuralODE(1, SELF, activation=activation, solver="euler", unfolds=1).double()
        set_values(ode, **common)
        assert ode.step(inputs, state, h).item() == pytest.approx(0.25 + h * f, rel=1e-9)
        assert ode.time_constants(inputs, state).item() == math.inf


def test_the_baselines_are_solved_as_their_authors_did() -> None:
    assert (CTRNN(1, 1).solver, CTRNN(1, 1).unfolds, CTRNN(1, 1).activation) == ("euler", 6, "tanh")
    assert (NeuralODE(1, 1).solver, NeuralODE(1, 1).unfolds, NeuralODE(1, 1).activation) == ("rk4", 6, "tanh")
    torch.testing.assert_close(CTRNN(1, 3).tau, torch.ones(3))
    assert (LTC(1, 1).solver, LTC(1, 1).unfolds) == ("fused", 6)
    assert (NeuralLTC(1, 1).solver, NeuralLTC(1, 1).unfolds, NeuralLTC(1, 1).activation) == ("fused", 6, "sigmoid")
    assert CTGRU(1, 1).scales == 8


def cfc_by_hand(cell: CfC, inputs: list[float], old: list[float], elapsed: float) -> list[float]:
    """The closed form neuron by neuron: earlier layers are heard at this step, all others at the last."""
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


def test_ct_gru_by_hand() -> None:
    cell = CTGRU(2, 3, scales=4).double()
    inputs, state = drawn(cell)
    tau = exact([1, 10**0.5, 10, 10**1.5])
    memory = state.reshape(3, 3, 4)
    x = torch.cat([inputs, memory.sum(-1)], dim=1)

    def weights(layer: nn.Linear) -> Tensor:
        return torch.softmax(-((layer(x).reshape(3, 3, 4) - tau.log()) ** 2), dim=-1)

    r, s = weights(cell.retrieve), weights(cell.store)
    q = torch.tanh(cell.detect(torch.cat([inputs, (r * memory).sum(-1)], dim=1)))
    expected = ((1 - s) * memory + s * q[..., None]) * torch.exp(-0.7 / tau)
    found = cell.step(inputs, state, 0.7)
    torch.testing.assert_close(found, expected.reshape(3, 12), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(cell.motor(found), expected.sum(-1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(cell.time_constants(inputs, state), (s * tau).sum(-1), rtol=1e-10, atol=1e-10)


def test_ct_gru_memory_decays_with_the_time_constants_of_its_scales() -> None:
    cell = CTGRU(2, 3).double()
    inputs, state = drawn(cell)
    written = cell.step(inputs, state, 0.0).reshape(3, 3, 8)
    for elapsed in (0.1, 2.0, 50.0):
        kept = cell.step(inputs, state, elapsed).reshape(3, 3, 8) / written
        expected = [math.exp(-elapsed / 10 ** (k / 2)) for k in range(8)]
        torch.testing.assert_close(kept, exact(expected).expand(3, 3, 8), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("ours", "theirs"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_lstm_and_gru_are_those_of_torch(ours: type[Cell], theirs: Any, backend: str) -> None:
    able, reason = available_backends()[backend]
    if not able:
        pytest.skip(reason)
    peer = theirs(3, 5, batch_first=True).double()
    rnn = RNN(ours(3, FullyConnected(5, 2)).double(), backend=backend)
    rnn.cell.load_state_dict({key.removesuffix("_l0"): value for key, value in peer.state_dict().items()})
    inputs, first = torch.randn(4, 7, 3).double(), torch.randn(4, rnn.cell.state_size).double()
    results = []
    for run in (rnn, peer):
        x, s = inputs.clone().requires_grad_(), first.clone().requires_grad_()
        if run is rnn:
            outputs, state, states = rnn(x, s, states=True)
            torch.testing.assert_close(outputs, states[:, :, 3:5], rtol=0, atol=0)
            trajectory = states[:, :, :5]
        else:
            parts = [part[None] for part in s.chunk(rnn.cell.state_size // 5, dim=1)]
            trajectory, last = peer(x, tuple(parts) if len(parts) == 2 else parts[0])
            state = torch.cat([part[0] for part in last], dim=1) if isinstance(last, tuple) else last[0]
        (trajectory.sin().sum() + state.pow(2).sum()).backward()
        results.append([trajectory, state, x.grad, s.grad, *[parameter.grad for parameter in run.parameters()]])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)
    # Elapsed time plays no part.
    assert torch.equal(rnn(inputs, first, 0.0)[0], rnn(inputs, first, 100.0)[0])


def test_time_constants_of_gates_by_hand() -> None:
    # The gate that keeps is the second of each: f of (i, f, g, o), z of (r, z, n).
    for cell in (LSTM(2, 3), GRU(2, 3)):
        nothing = torch.zeros(1, 2), torch.zeros(1, cell.state_size)
        with torch.no_grad():
            cell.bias_ih.zero_(), cell.bias_hh.zero_()
            cell.bias_ih[3:6] = torch.tensor([0.5, 0.0, -2.0])
        expected = [-1 / math.log(sigmoid(z)) for z in (0.5, 0.0, -2.0)]
        assert cell.time_constants(*nothing)[0].tolist() == pytest.approx(expected, rel=1e-5)
        # A gate that is all but open, one that is open for good, one that is shut.
        with torch.no_grad():
            cell.bias_ih[3:6] = torch.tensor([30.0, 1e6, -1e6])
        almost, always, never = cell.time_constants(*nothing)[0].tolist()
        assert almost > 1e7
        assert always == math.inf
        assert 0 <= never < 1e-5


@pytest.mark.parametrize("name", ["mixed-cfc", "mixed-ltc", "mixed-ct-gru", "mixed-gru"])
def test_mixed_memory_is_an_lstm_and_then_the_cell(name: str) -> None:
    cell = build(name, torch.float64)
    assert isinstance(cell, MixedMemory)
    inputs, state = drawn(cell)
    h, c = state.chunk(2, dim=1)
    gates = inputs @ cell.input_weight.T + cell.input_bias + h @ cell.recurrent_weight.T
    g, i, f, o = gates.chunk(4, dim=1)
    c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    expected = torch.cat([cell.cell.step(inputs, h, 0.3), c], dim=1)
    torch.testing.assert_close(cell.step(inputs, state, 0.3), expected)
    torch.testing.assert_close(cell.motor(expected), cell.cell.motor(expected.chunk(2, dim=1)[0]))


def changed(cell: Cell, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> set[int]:
    """The neurons whose next state is not exactly the same from inputs and states before and after."""
    same = cell.step(*before, 0.5) == cell.step(*after, 0.5)
    return set(torch.nonzero((~same).any(0)).flatten().tolist())


def reached(cell: Cell, neurons: set[int], sensory: set[int]) -> set[int]:
    """The neurons that a moved state or input reaches in one CfC step: layer by layer."""
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
    """The gradient of a command neuron's next state to another's state is there exactly where the synapse is."""
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
    assert count(CTRNN(3, wiring)) == synapses + 2 * units
    assert count(NeuralODE(3, wiring)) == synapses + units
    own = sum(s == t for s, t, _ in wiring.synapses)
    assert count(CfC(3, wiring)) == 4 * (synapses + units - own) + 4 * units
    assert count(CfC(3, wiring, mode="pure")) == synapses + units - own + 3 * units


@pytest.mark.parametrize(("k", "inputs"), [(4, 2), (7, 1)])
def test_parameter_counts_of_the_paper(k: int, inputs: int) -> None:
    """Table S2 of the 2021 paper: recurrent part and neurons, without the weights of the inputs."""
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


RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "ncps": {"gleak": (0.001, 1), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "w": (0.001, 1), "sigma": (3, 8)}
    | {"mu": (0.3, 0.8), "gap": (0.001, 1), "E": (1, 1)},
    "original": {"gleak": (1, 1), "vleak": (-0.2, 0.2), "cm": (0.5, 0.5), "w": (0.01, 1), "sigma": (3, 8)}
    | {"mu": (0.3, 0.8), "gap": (0.01, 1), "E": (1, 1)},
    "biophysical": {"gleak": (0.1, 1), "vleak": (-1, 0), "cm": (0.1, 10), "w": (0, 2), "sigma": (0.5, 5)}
    | {"mu": (-2, 2), "gap": (0, 1), "E": (0, 1)},
    "centred": {"gleak": (0.001, 1), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "w": (0.001, 1), "sigma": (3, 8)}
    | {"mu": (-0.5, 0.5), "gap": (0.001, 1), "E": (1, 1)},
}
SENSORY_RANGES = {"centred": {"sensory_mu": (-1, 1), "sensory_sigma": (2, 4)}}


@pytest.mark.parametrize("init", RANGES)
def test_ltc_starts_in_the_ranges_of_its_init(init: str) -> None:
    cell = LTC(20, GapJunctions(FullyConnected(25), 60), init=init)
    wiring = cell.wiring
    ranges = dict(RANGES[init])
    for name in ("w", "sigma", "mu", "E"):
        ranges[f"sensory_{name}"] = ranges[name]
    ranges |= SENSORY_RANGES.get(init, {})
    for name, (low, high) in ranges.items():
        value = getattr(cell, name).detach()
        if name.endswith("E"):
            value = value * torch.tensor((wiring.synapses if name == "E" else wiring.sensory).polarity)
        assert value.min() >= low - 1e-5
        assert value.max() <= high + 1e-5
        # and fill them
        assert value.max() - value.min() >= 0.8 * (high - low)
    assert torch.equal(cell.input_scale, torch.ones(20))
    assert not cell.output_shift.any()


def test_neural_ltc_starts_as_its_init_says() -> None:
    paper = NeuralLTC(3, 200)
    assert 0.01 <= paper.tau.min() < 0.015
    assert 0.7 < paper.tau.max() <= 1 + 1e-6
    # log-uniform: as many below 0.1 as above
    assert 70 < (paper.tau < 0.1).sum() < 130
    assert paper.A.std().item() == pytest.approx(1, abs=0.15)
    constant = NeuralLTC(3, 200, init="constant")
    torch.testing.assert_close(constant.tau, torch.ones(200))
    assert constant.A.std().item() == pytest.approx(1, abs=0.15)
    zero = NeuralLTC(3, 200, init="zero")
    torch.testing.assert_close(zero.tau, torch.ones(200))
    assert not zero.A.any()


def test_weights_start_with_their_variance_over_the_fan_in() -> None:
    for make in (NeuralLTC, CTRNN, NeuralODE):
        cell = make(10, 90, weight_variance=3.0, bias_variance=0.5)
        # Every neuron hears 10 inputs and 90 neurons.
        assert cell.gamma_r.std().item() == pytest.approx(math.sqrt(3 / 100), rel=0.05)
        assert cell.gamma.std().item() == pytest.approx(math.sqrt(3 / 100), rel=0.1)
        assert cell.mu.std().item() == pytest.approx(math.sqrt(0.5), rel=0.25)
        assert not make(2, 3, bias_variance=0.0).mu.any()
    sparse = NeuralLTC(4, AutoNCP(120, 20, seed=1), weight_variance=3.0)
    fan_in = torch.tensor(sparse.wiring.fan_in)
    assert fan_in.max() > 4 * fan_in.min()
    for weight, target in ((sparse.gamma, sparse.sensory_target), (sparse.gamma_r, sparse.target)):
        assert (weight * fan_in[target].sqrt()).std().item() == pytest.approx(math.sqrt(3), rel=0.1)


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


REFUSED: list[tuple[Any, str]] = [
    (lambda: LTC(2, 3, init="random"), r"unknown init 'random'.*ncps, original, biophysical, centred"),
    (lambda: NeuralLTC(2, 3, init="ncps"), r"unknown init 'ncps'.*paper, constant, zero"),
    (lambda: LTC(2, 3, input_map="full"), r"unknown input_map 'full'.*affine, linear, none"),
    (lambda: LTC(2, 3, output_map=""), r"unknown output_map ''"),
    (lambda: NeuralLTC(2, 3, activation="gelu"), r"unknown activation 'gelu'.*sigmoid, relu, tanh, hard_tanh"),
    (lambda: CTRNN(2, 3, weight_variance=-1.0), r"variances must not be negative, got -1.0 and 0.0"),
    (lambda: CfC(2, 3, mode="gate"), r"unknown mode 'gate'.*default, no_gate, pure"),
    (lambda: CfC(3, NCP_7, backbone=(4,)), r"a backbone needs one layer of neurons"),
    (lambda: CfC(3, SOLITARY, backbone=(4,)), r"the wiring has 1 inputs, but the cell was asked for 3"),
    (lambda: CfC(1, SOLITARY, backbone=(4,)), r"CfC has no sparse form"),
    (lambda: LSTM(3, NCP_7), r"LSTM has no sparse form"),
    (lambda: GRU(3, RANDOM_5), r"GRU has no sparse form"),
    (lambda: CTGRU(3, NCP_7), r"CTGRU has no sparse form"),
    (lambda: CTGRU(3, 2, scales=0), r"scales must be a positive number, got 0"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_a_cell_cannot_be_is_refused(case: int) -> None:
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ZOO)
def test_copies_and_saved_weights_give_the_same_cell(name: str) -> None:
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    expected = cell.step(inputs, state, 0.4)
    assert set(cell.state_dict()) == set(dict(cell.named_parameters()))
    torch.manual_seed(11)
    other = ZOO[name]()
    assert not torch.equal(other.step(inputs, state, 0.4), expected)
    other.load_state_dict(cell.state_dict())
    for same in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell)), other):
        assert torch.equal(same.step(inputs, state, 0.4), expected)
        assert same.wiring == cell.wiring
    twin = copy.deepcopy(cell)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter += 0.1
    assert torch.equal(cell.step(inputs, state, 0.4), expected)
    assert not torch.equal(twin.step(inputs, state, 0.4), expected)


@pytest.mark.parametrize("name", [name for name in ZOO if not name.startswith("mixed")])
def test_a_cell_is_rebuilt_from_its_config(name: str) -> None:
    cell = build(name, shaken=0.1)
    config = json.loads(json.dumps(cell.config()))
    again = type(cell)(cell.inputs, cell.wiring, **config)
    again.load_state_dict(cell.state_dict())
    inputs, state = drawn(cell)
    assert torch.equal(again.step(inputs, state, 0.4), cell.step(inputs, state, 0.4))
    assert again.config() == cell.config()
    for key, value in config.items():
        assert key in repr(cell)
        assert repr(value) in repr(cell) or isinstance(value, list)


@pytest.mark.parametrize("name", ZOO)
def test_a_cell_in_float64_computes_in_float64(name: str) -> None:
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    double = copy.deepcopy(cell).double()
    assert double.dtype == torch.float64
    expected = double.step(inputs.double(), state.double(), 0.4)
    assert expected.dtype == torch.float64
    torch.testing.assert_close(cell.step(inputs, state, 0.4).double(), expected, rtol=1e-4, atol=1e-4)
    for found in (*double.state_bounds(), *double.time_constant_bounds(), double.initial_state(2)):
        assert found.dtype == torch.float64
    assert double.time_constants(inputs.double(), state.double()).shape == (3, cell.units)
    torch.set_default_dtype(torch.float64)
    assert {value.dtype for value in ZOO[name]().parameters()} == {torch.float64}


@pytest.mark.parametrize("name", ZOO)
def test_parameters_can_be_given_from_outside(name: str) -> None:
    cell = build(name, shaken=0.1)
    rnn = RNN(build(name))
    inputs, state = drawn(cell)
    parameters = {f"cell.{key}": value for key, value in cell.named_parameters()}
    outputs, last = functional_call(rnn, parameters, (inputs[:, None], state, 0.4))
    torch.testing.assert_close(last, cell.step(inputs, state, 0.4))
    torch.testing.assert_close(outputs[:, 0], cell.motor(last))
    assert not torch.equal(last, rnn.cell.step(inputs, state, 0.4))


COMPILED = [
    *("ltc-gaps", "ltc-deep", "ltc-chain", "ltc-rk4", "neural-ltc-sigmoid", "neural-ltc-euler", "ctrnn-euler"),
    *(
        "neural-ode-sparse",
        "cfc-default",
        "cfc-no_gate",
        "cfc-pure",
        "cfc-backbone",
        "ct-gru",
        "lstm",
        "gru",
        "mixed-ltc",
    ),
]


@pytest.mark.parametrize("name", COMPILED)
def test_a_step_compiles_to_one_graph(name: str) -> None:
    torch.compiler.reset()
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    compiled = torch.compile(cell.step, fullgraph=True, backend="eager")
    for elapsed in (0.4, torch.tensor([0.1, 0.4, 2.0])):
        torch.testing.assert_close(compiled(inputs, state, elapsed), cell.step(inputs, state, elapsed))


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "cfc-default", "ct-gru", "mixed-ltc"])
def test_a_compiled_step_has_the_same_gradients(name: str) -> None:
    torch.compiler.reset()
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    elapsed = torch.tensor([0.1, 0.4, 2.0])
    gradients = []
    for step in (cell.step, torch.compile(cell.step, fullgraph=True, backend="aot_eager")):
        cell.zero_grad()
        step(inputs, state, elapsed).pow(2).sum().backward()
        gradients.append([value.grad.clone() for value in cell.parameters() if value.grad is not None])
    assert gradients[0]
    for eager, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(compiled, eager)


class Step(nn.Module):
    """A cell's step as the forward of a module, which is what torch exports."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor, state: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell.step(inputs, state, elapsed)
        return self.cell.motor(state), state


EXPORTED = ["ltc-gaps", "ltc-gap-only", "neural-ltc-relu", "ctrnn-rk4", "cfc-default", "cfc-backbone-pure", "ct-gru"]


@pytest.mark.parametrize("name", [*EXPORTED, "lstm", "gru", "mixed-cfc"])
def test_a_step_is_exported_for_every_batch(name: str) -> None:
    cell = build(name, shaken=0.1)
    batch = torch.export.Dim("batch", min=1)
    shapes = {"inputs": {0: batch}, "state": {0: batch}, "elapsed": {0: batch}}
    program = torch.export.export(Step(cell), (*drawn(cell), torch.rand(3)), dynamic_shapes=shapes)
    for size in (1, 3, 17):
        inputs, state = drawn(cell, size)
        elapsed = 0.1 + torch.rand(size)
        outputs, after = program.module()(inputs, state, elapsed)
        torch.testing.assert_close(after, cell.step(inputs, state, elapsed))
        torch.testing.assert_close(outputs, cell.motor(after))


@pytest.mark.parametrize("name", ["NeuralLTC", "neuralltc", "neural_ltc", "neural-LTC"])
def test_cells_are_named_as_people_write_them(name: str) -> None:
    assert type(make_cell(name, 3, 4)) is NeuralLTC
    with pytest.raises(ValueError, match=f"unknown cell '{name}s': choose one of LTC, NeuralLTC"):
        make_cell(f"{name}s", 3, 4)
