"""The worm's tap-withdrawal circuit: its reflexes against the worm's, killed neurons, and the report."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from ncp_control.neurons import Held, without_synapses
from ncp_control.wiring.worm import GAP_JUNCTIONS, SYNAPSES
from scripts.paper.common.report import drawing
from scripts.paper.worm import experiments as worm_experiments
from scripts.paper.worm.circuit import NAMES, STIMULI, Numbers, respond, stimuli, without, worm
from scripts.paper.worm.experiments import EXPERIMENTS, Experiment, Gone, Responses, agreements, compare, operate
from scripts.paper.worm.findings import findings

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def found() -> dict[Gone, Responses]:
    """The responses of every circuit that the experiments ask for."""
    return operate()


def test_conductances_are_in_proportion_to_contacts() -> None:
    numbers = Numbers(chemical=0.003, electrical=0.05)
    cell = worm(numbers)
    contacts = {one[:2]: one for one in SYNAPSES}
    for k, (a, b, sign) in enumerate(cell.wiring.synapses):
        one = contacts[NAMES[a], NAMES[b]]
        assert cell.w[k].item() == pytest.approx(0.003 * one.contacts, rel=1e-5)
        assert cell.E[k].item() == pytest.approx(1.0 if sign > 0 else numbers.inhibition)
    gaps = {frozenset(one[:2]): one.contacts for one in GAP_JUNCTIONS}
    for k, (a, b) in enumerate(cell.wiring.gap_junctions):
        assert cell.gap[k].item() == pytest.approx(0.05 * gaps[frozenset((NAMES[a], NAMES[b]))], rel=1e-5)
    # The time constant of a membrane alone is 15 steps of 10 ms, for any number of cells.
    torch.testing.assert_close(cell.cm / cell.gleak, torch.full((11,), 15.0))


def test_touch_at_the_tail_leads_forward_and_touch_at_the_head_backward(found: dict[Gone, Responses]) -> None:
    whole = found[()]
    for backward, forward in (("AVA", "AVB"), ("REV", "FWD")):
        assert whole.change("tail touch", forward) > 0.5 > -0.5 > whole.change("tail touch", backward)
        assert whole.change("head touch", backward) > 0.5 > -0.5 > whole.change("head touch", forward)
    # A tap touches both ends: it leads backward, but less than touch at the head alone.
    assert 0 < whole.backward("tap") < whole.backward("head touch")
    assert found["ALM", "AVM"].backward("head touch") == pytest.approx(0, abs=1e-3)
    assert found["PLM",].backward("tail touch") == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: f"{one.name}: {one.wanted}")
def test_each_experiment_goes_the_published_way(one: Experiment, found: dict[Gone, Responses]) -> None:
    outcome = compare(one, found)
    assert outcome.agrees
    if one.published in ("forward", "backward"):
        assert (outcome.value > 0) is (one.published == "backward")
    else:
        assert outcome.reference is not None
        assert outcome.reference > 0
        assert (outcome.value > outcome.reference) is (one.published == "larger")


def test_a_circuit_with_the_opposite_response_does_not_agree(found: dict[Gone, Responses]) -> None:
    tap, larger = (next(one for one in EXPERIMENTS if one.name == name) for name in ("tap", "tap, no PLM"))
    assert not compare(tap, {(): found["ALM", "AVM"]}).agrees
    assert not compare(larger, {("PLM",): found["DVA",], (): found[()]}).agrees
    deaf = respond(without(worm(), NAMES))
    assert not any(
        compare(one, dict.fromkeys(found, deaf)).agrees for one in EXPERIMENTS if one.stimulus != "untouched"
    )
    outcomes = [compare(one, {**found, ("PLM",): found["DVA",]}) for one in EXPERIMENTS]
    by_name = {item.name: item for item in findings(outcomes, found)}
    assert by_name["Reflex"].holds
    assert not by_name["Killed neurons, direction"].holds
    assert "not tap, no PLM" in by_name["Killed neurons, direction"].found


def test_a_killed_neuron_has_no_effect_and_receives_none() -> None:
    cell = without(worm(), ["AVA"])
    gone = NAMES.index("AVA")
    start = torch.zeros(2, 11)
    start[1, gone] = 0.8
    _, _, states = nc.RNN(cell)(stimuli()[2:3].expand(2, -1, -1), start, states=True)
    others = [k for k in range(11) if k != gone]
    torch.testing.assert_close(states[0][:, others], states[1][:, others], rtol=0, atol=1e-6)
    # Alone, it decays towards its leak potential by a factor of e in 15 steps; the fused solver is a little slower.
    alone = states[1, :, gone] - Numbers().backward
    assert (alone[29] / alone[14]).item() == pytest.approx(np.exp(-1), rel=0.02)
    intact = worm()
    assert not torch.equal(without(intact, ["AVA"]).w_raw, intact.w_raw)
    assert torch.isfinite(torch.cat([intact.w_raw, intact.gap_raw])).all()


def test_a_cut_gap_junction_carries_nothing() -> None:
    cell = nc.LTC(1, nc.Wiring.from_edges(1, inter=1, motor=1, sensory=[(0, 0)], gap_junctions=[(0, 1)]))
    with torch.no_grad():
        cell.vleak.zero_()
    touched = torch.full((1, 20, 1), 5.0)
    _, _, whole = nc.RNN(Held(cell, {0: 0.9}))(touched, states=True)
    _, _, cut = nc.RNN(Held(without_synapses(cell, [], gap_junctions=[0]), {0: 0.9}))(touched, states=True)
    assert whole[0, -1, 1].item() > 0.01
    assert cut[0, -1, 1].item() == pytest.approx(0, abs=1e-5)


def test_states_stay_within_their_bounds(found: dict[Gone, Responses]) -> None:
    assert min(one.margin for one in found.values()) >= -1e-4
    low, high = worm().state_bounds()
    assert (low >= Numbers().inhibition).all()
    assert (high <= 1).all()
    for seed in range(3):
        torch.manual_seed(seed)
        numbers = Numbers(**{name: value * 4 ** float(torch.randn(())) for name, value in vars(Numbers()).items()})
        cell = worm(numbers)
        low, high = cell.state_bounds()
        _, _, states = nc.RNN(cell)(1000 * torch.randn(4, 50, 3), states=True)
        assert ((states >= low - 1e-5) & (states <= high + 1e-5)).all()


def test_the_same_seed_draws_the_same_circuits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def operated(numbers: Numbers | None = None, signs: Any = None) -> dict[Gone, Responses]:
        seen.append((numbers, signs))
        return whole

    whole = operate()
    monkeypatch.setattr(worm_experiments, "operate", operated)
    for seed in (3, 3, 4):
        numbers, signs = agreements(2, seed)
        assert numbers.shape == signs.shape == (2, len(EXPERIMENTS))
        assert numbers.all()
    assert seen[:4] == seen[4:8] != seen[8:]
    assert seen[0][0] != seen[1][0] != Numbers()
    assert set(seen[2][1]) == {one[:2] for one in SYNAPSES if one.sign == "assumed"}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib")
    module = importlib.import_module("scripts.paper.worm.__main__")
    monkeypatch.setattr(module, "CIRCUITS", 1)
    return module


@pytest.mark.slow
def test_the_command_writes_its_table_and_pictures(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["worm", "--out", str(tmp_path / "out"), "--json"])
    assert script.run_report("worm", script.__doc__, script.Settings, script.make) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["agrees"] for row in printed["rows"]] == ["yes"] * len(EXPERIMENTS)
    names = {"report.md", "report.json", "table.csv"}
    names |= {f"{stem}.{kind}" for stem in ("circuit", "traces", "experiments") for kind in ("svg", "png")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert all(name in (tmp_path / "out" / "circuit.svg").read_text() for name in NAMES)
    again = script.make(script.Settings())
    assert [list(row) for row in again.rows] == [list(row.values()) for row in printed["rows"]]


def test_pictures_follow_a_style(found: dict[Gone, Responses], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex

    from scripts.paper.worm.figures import draw_circuit, draw_traces

    style = tmp_path / "mine.mplstyle"
    style.write_text(
        "axes.prop_cycle: cycler('color', ['111111', '222222', '333333', '444444', '555555', '666666', '777777'])\n"
    )
    with drawing(str(style)):
        circuit, traces = draw_circuit(), draw_traces(found[()])
        drawn = {to_hex(line.get_color()) for line in traces.axes[0].lines}
    # Four inputs' lines, the synapses and the gap junctions.
    lines = circuit.axes[0].patches
    assert len(lines) == 4 + len(SYNAPSES) + len(GAP_JUNCTIONS)
    assert {to_hex(line.get_edgecolor()) for line in lines} == {"#111111", "#222222", "#777777"}
    assert [axes.get_title() for axes in traces.axes[: len(STIMULI)]] == list(STIMULI)
    assert drawn == {"#111111", "#222222", "#777777"}
