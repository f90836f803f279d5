"""Every cell: what it refuses, its copies and settings, its float types, and what torch can do with it."""

import copy
import json
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from helpers.cell_values import drawn
from helpers.cells import NCP_7, RANDOM_5, SOLITARY, ZOO, build
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, NeuralLTC
from ncp_control.rnn import RNN

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
def test_a_cell_that_is_called_says_what_runs_it(name: str) -> None:
    cell = build(name)
    with pytest.raises(TypeError, match=rf"{type(cell).__name__} is a cell.*wrap it, nc\.RNN\(cell\)"):
        cell(torch.zeros(2, 3, cell.inputs))


@pytest.mark.parametrize("name", ZOO)
def test_copies_and_saved_weights_give_the_same_cell(name: str) -> None:
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    expected = cell.step(inputs, state, 0.4)
    assert set(cell.state_dict()) == set(dict(cell.named_parameters()))
    torch.manual_seed(11)
    other = ZOO[name]()
    assert not torch.equal(other.neurons(other.step(inputs, state, 0.4)), cell.neurons(expected))
    other.load_state_dict(cell.state_dict())
    for same in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell)), other):
        assert torch.equal(same.step(inputs, state, 0.4), expected)
        assert torch.equal(same.neurons(expected), cell.neurons(expected))
        assert same.wiring == cell.wiring
    twin, neurons = copy.deepcopy(cell), cell.neurons(expected)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter += 0.1
    assert torch.equal(cell.step(inputs, state, 0.4), expected)
    assert torch.equal(cell.neurons(expected), neurons)
    assert not torch.equal(twin.neurons(twin.step(inputs, state, 0.4)), neurons)


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
    try:
        assert {value.dtype for value in ZOO[name]().parameters()} == {torch.float64}
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ZOO)
def test_parameters_can_be_given_from_outside(name: str) -> None:
    cell = build(name, shaken=0.1)
    rnn = RNN(build(name))
    inputs, state = drawn(cell)
    parameters = {f"cell.{key}": value for key, value in cell.named_parameters()}
    outputs, last = functional_call(rnn, parameters, (inputs[:, None], state, 0.4))
    torch.testing.assert_close(last, cell.step(inputs, state, 0.4))
    torch.testing.assert_close(outputs[:, 0], cell.motor(last))
    assert not torch.equal(outputs[:, 0], rnn.cell.motor(rnn.cell.step(inputs, state, 0.4)))


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


@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("ltc-gaps", "cfc-default") else pytest.mark.slow) for name in COMPILED],
)
def test_a_step_compiles_to_one_graph(name: str) -> None:
    torch.compiler.reset()
    cell = build(name, shaken=0.1)
    inputs, state = drawn(cell)
    compiled = torch.compile(cell.step, fullgraph=True, backend="eager")
    for elapsed in (0.4, torch.tensor([0.1, 0.4, 2.0])):
        torch.testing.assert_close(compiled(inputs, state, elapsed), cell.step(inputs, state, elapsed))


@pytest.mark.slow
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
    """A module whose forward is a cell's step: torch exports modules."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor, state: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell.step(inputs, state, elapsed)
        return self.cell.motor(state), state


EXPORTED = ["ltc-gaps", "ltc-gap-only", "neural-ltc-relu", "ctrnn-rk4", "cfc-default", "cfc-backbone-pure", "ct-gru"]


@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "ltc-gaps" else pytest.mark.slow)
        for name in (*EXPORTED, "lstm", "gru", "mixed-cfc")
    ],
)
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
