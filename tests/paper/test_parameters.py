"""Numbers of parameters: counted, by formula, in torch and ncps, and in the LTC paper."""

import importlib
from typing import Any

import pytest
import torch

from ncp_control.neurons import CTGRU, GRU, LSTM, LTC, Cell, CfC, MixedMemory, NeuralLTC
from ncp_control.neurons.held import Held
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, GapJunctions, Plan, Random, Wiring
from scripts.paper.parameters.counts import MODELS, Reading, Sizes, agreeing, by_formula, counted, read

pytestmark = pytest.mark.system

DEEP = NCP(
    (3, 4), 3, 2, sensory_fanout=2, inter_fanout=(1, 2), recurrent_command=4, motor_fanin=2, recurrent_inter=2, seed=2
)
PLANS: dict[str, Plan | int] = {
    **{f"{k} dense": k for k in (1, 2, 5, 17, 33)},
    "7 dense, some motor": FullyConnected(7, 3),
    "AutoNCP": AutoNCP(17, 5, seed=3),
    "sparse AutoNCP": AutoNCP(33, 8, sparsity=0.8, seed=4),
    "deep": DEEP,
    "random": Random(9, 4, sparsity=0.6, seed=5),
    "gaps": GapJunctions(AutoNCP(17, 5, seed=3), 9, seed=1),
    "dense gaps": GapJunctions(FullyConnected(5, 2), 4, seed=1),
}
DENSE_ONLY = ("LSTM", "GRU", "CT-GRU")
POSSIBLE = [(model, plan) for model in MODELS for plan in PLANS if model not in DENSE_ONLY or "dense" in plan]


@pytest.mark.parametrize("inputs", [1, 3, 17])
@pytest.mark.parametrize(("model", "plan"), POSSIBLE)
def test_formula_and_count_agree(model: str, plan: str, inputs: int) -> None:
    cell = MODELS[model].make(inputs, PLANS[plan])
    assert by_formula(cell) == counted(cell)


@pytest.mark.parametrize("inputs", [1, 3, 17])
@pytest.mark.parametrize(
    "make",
    [
        lambda inputs: LTC(inputs, DEEP, input_map="linear", output_map="none"),
        lambda inputs: LTC(inputs, 5, input_map="none", output_map="linear"),
        lambda inputs: CfC(inputs, 5, backbone=(11,)),
        lambda inputs: CfC(inputs, 3, mode="no_gate", backbone=(5, 4)),
        lambda inputs: CfC(inputs, 3, mode="pure", backbone=(7,)),
        lambda inputs: CTGRU(inputs, 3, scales=1),
        lambda inputs: CTGRU(inputs, FullyConnected(5, 2), scales=3),
        lambda inputs: MixedMemory(CfC(inputs, DEEP)),
        lambda inputs: MixedMemory(CTGRU(inputs, 2, scales=3)),
        lambda inputs: MixedMemory(LSTM(inputs, 3)),
        lambda inputs: MixedMemory(MixedMemory(GRU(inputs, 3))),
    ],
)
def test_settings_that_change_the_count(make: Any, inputs: int) -> None:
    cell = make(inputs)
    assert by_formula(cell) == counted(cell)


def test_sizes_of_a_circuit_counted_by_hand() -> None:
    wiring = Wiring.from_edges(
        2, inter=2, motor=1, sensory=[(0, 0), (1, 0), (1, 1)], synapses=[(0, 0), (0, 2), (1, 2), (2, 2)],
        gap_junctions=[(0, 1)],
    )  # fmt: skip
    assert Sizes.of(wiring) == Sizes(2, 3, synapses=4, sensory=3, gap_junctions=1, outputs=1, loops=2)
    assert counted(LTC(2, wiring)) == 4 * 7 + 1 + 3 * 3 + 2 * 2 + 2 * 1
    assert counted(NeuralLTC(2, wiring)) == 7 + 3 * 3
    assert counted(CfC(2, wiring)) == 4 * (4 + 1 + 3) + 4 * 3  # one neuron has no loop of its own


@pytest.mark.parametrize(("inputs", "k"), [(1, 1), (3, 5), (17, 32)])
@pytest.mark.parametrize(("model", "theirs"), [("LSTM", torch.nn.LSTM), ("GRU", torch.nn.GRU)])
def test_torch_has_as_many(model: str, theirs: Any, inputs: int, k: int) -> None:
    cell = MODELS[model].make(inputs, k)
    assert by_formula(cell) == sum(parameter.numel() for parameter in theirs(inputs, k).parameters())


@pytest.mark.parametrize(("inputs", "k"), [(3, 5), (17, 32)])
def test_ncps_has_as_many(inputs: int, k: int) -> None:
    theirs = pytest.importorskip("ncps.torch").LTC(inputs, k)
    trained = sum(parameter.numel() for parameter in theirs.parameters() if parameter.requires_grad)
    assert by_formula(LTC(inputs, k)) == trained


@pytest.mark.parametrize(
    ("model", "k", "layers", "slots", "number"),
    [
        ("CT-RNN", 32, 1, 8, 1088), ("CT-RNN", 10, 3, 8, 360), ("Neural ODE", 32, 1, 8, 1056),
        ("LSTM", 32, 1, 8, 4224), ("LSTM", 10, 2, 8, 880), ("CT-GRU", 32, 1, 8, 17952), ("CT-GRU", 10, 1, 2, 550),
        ("LTC", 32, 1, 8, 4192), ("LTC", 10, 2, 8, 860),
    ],
)  # fmt: skip
def test_the_published_formulas(model: str, k: int, layers: int, slots: int, number: int) -> None:
    published = MODELS[model].published
    assert published is not None
    assert published[1](k, layers, slots) == number


PLAIN = Reading("none", True, 2)


@pytest.mark.parametrize(
    ("model", "reading"),
    [
        ("CT-RNN", PLAIN), ("Neural ODE", PLAIN), ("CT-GRU", PLAIN),
        ("LSTM", PLAIN._replace(biases=1)), ("LTC", PLAIN._replace(maps=False)),
    ],
)  # fmt: skip
def test_the_reading_under_which_a_published_formula_is_right(model: str, reading: Reading) -> None:
    published = MODELS[model].published
    assert published is not None
    assert agreeing(model, published[1], (1, 2, 7, 32)) == [reading]


def test_a_wrong_formula_agrees_with_no_reading() -> None:
    assert agreeing("LTC", lambda k, n, m: 4 * k**2 + 3 * k + 1, (1, 5)) == []


def test_as_many_inputs_as_neurons_double_the_weights() -> None:
    assert read("CT-RNN", 7, Reading("k", True, 2)) == 7 * 14 + 2 * 7
    assert read("LSTM", 7, Reading("k", True, 1)) == 4 * (7 * 14 + 7)
    assert read("LTC", 7, Reading("k", True, 2)) == 4 * 7 * 14 + 3 * 7 + 2 * 7 + 2 * 7
    assert str(Reading("k", False, 1)) == "as many inputs as neurons, no input and output maps, one bias vector a gate"


def test_a_cell_without_a_formula_is_refused() -> None:
    cell: Cell = Held(LTC(2, 3), {0: 0.0})
    with pytest.raises(TypeError, match="no formula for a Held"):
        by_formula(cell)


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    script = importlib.import_module("scripts.paper.parameters.__main__")
    monkeypatch.setattr(script, "WIDTHS", (8, 16, 32))
    report = script.make(script.Settings())
    table = {row[0]: dict(zip(report.head, row, strict=True)) for row in report.rows}
    assert {name: row["17 inputs"] for name, row in table.items()} == {
        "CT-RNN": 1632, "Neural ODE": 1600, "LSTM": 6528, "CT-GRU": 27200, "LTC": 6466, "NeuralLTC": 1664, "CfC": 6400,
        "CfC, no_gate": 6400, "CfC, pure": 1664, "GRU": 4896, "LTC, mixed memory": 6466 + 4 * 32 * 50,
    }  # fmt: skip
    assert table["LTC"]["12 gap junctions"] == table["LTC"]["AutoNCP(32, 8)"] + 12
    assert table["LSTM"]["AutoNCP(32, 8)"] is None
    held = {finding.name: finding.holds for finding in report.findings}
    assert held == {
        "CT-RNN": True, "Neural ODE": True, "LSTM": True, "CT-GRU": True, "LTC": True,
        "Layers": False, "Order": held["Order"], "LTC and LSTM": True, "Our formulas": True,
    }  # fmt: skip
    assert list(report.figures) == ["parameters"]
    assert script.make(script.Settings()).as_json() == report.as_json()
