"""Networks under growing inputs: the measurements, which states stay bounded or grow, and which solvers keep bounds."""

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from ncp_control.neurons import CTRNN, LSTM, LTC, Cell, NeuralLTC, NeuralODE
from ncp_control.neurons.parameters import raw_of
from ncp_control.wiring import AutoNCP, GapJunctions
from scripts.paper.bounds.driven import (
    LAG,
    LIQUID,
    MAGNITUDES,
    MEMORY,
    NETWORKS,
    NEURAL,
    NEURAL_ODE,
    RECURRENT,
    TANH,
    Contestant,
    Sizes,
    drive,
    margins,
    reach,
    signals,
    task,
    train,
    train_one,
)
from scripts.paper.bounds.solvers import RATIOS, leaves_at, overshoots

pytestmark = pytest.mark.system

TINY = Sizes(units=8, batches=4, steps=30, long=256, rows=2, solver_steps=6)
ROOT = Path(__file__).parents[2]


def contestant(cell: Cell, bounding: Cell | None = None) -> Contestant:
    return Contestant("it", cell, "", bounding or cell)


def test_the_task_asks_for_an_earlier_sine() -> None:
    inputs, target = task(4, 30, torch.Generator().manual_seed(0))
    assert inputs.shape == (4, 30, 2)
    torch.testing.assert_close(target[:, LAG:, 0], inputs[:, :-LAG, 0])
    size = inputs.square().sum(-1).sqrt()
    torch.testing.assert_close(size, size[:, :1].expand_as(size))
    assert 0.5 <= float(size.min()) <= float(size.max()) <= 1.5


def test_signals_have_their_size_and_their_kind() -> None:
    found = signals(1e4, Sizes(steps=50, rows=3), 2, torch.Generator().manual_seed(0))
    assert found.shape == (12, 50, 2)
    constant, alternating, random, growing = found.split(3)
    assert (constant == constant[:, :1]).all()
    torch.testing.assert_close(alternating[:, 1:], -alternating[:, :-1])
    torch.testing.assert_close(alternating[:, 0], constant[:, 0])
    assert 0.7e4 < float(random.std()) < 1.3e4
    torch.testing.assert_close(growing[:, -1], constant[:, 0])
    assert (growing[:, 1:].abs() > growing[:, :-1].abs()).all()
    assert float(growing[:, 0].abs().max()) < 2


def test_margins_by_hand() -> None:
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 10.0])
    assert margins(torch.tensor([[0.5, 3.0], [-0.75, 9.0]]), (low, high), relative=False) == (0.25, True)
    assert margins(torch.tensor([[0.5, 10.5]]), (low, high), relative=False) == (-0.5, False)
    assert margins(torch.tensor([[0.5, math.inf]]), (low, high), relative=False) == (-math.inf, False)
    # rounding: an error of 3 units of the last place of 10 is allowed, one of 6 is not
    unit = 10 * torch.finfo(torch.float32).eps
    assert margins(torch.tensor([[0.5, 10 + 3 * unit]]), (low, high), relative=False)[1]
    assert not margins(torch.tensor([[0.5, 10 + 6 * unit]]), (low, high), relative=False)[1]
    # relative: one part in eleven of the upper bound; a lower bound of zero has no relative distance
    assert margins(torch.tensor([[10.0]]), (torch.zeros(1), torch.tensor([11.0])), relative=True) == (
        pytest.approx(1 / 11),
        True,
    )
    infinite = torch.tensor([math.inf])
    assert margins(torch.tensor([[1e30]]), (-infinite, infinite), relative=False) == (math.inf, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LTC(2, GapJunctions(AutoNCP(9, 2, seed=1), 2)),
        lambda: NeuralLTC(2, 7),
        lambda: NeuralLTC(2, AutoNCP(9, 2, seed=1), time_constants=(0.01, 100.0)),
        lambda: CTRNN(2, 5, solver="fused"),
    ],
)
def test_bounded_cells_stay_inside_whatever_the_inputs(make: Any) -> None:
    found = drive(contestant(make()), TINY, seed=0)
    assert found.inside == (True, True)
    assert not found.grows
    assert min(found.margins) > -1e-5
    for one in found.by_magnitude:
        assert one.largest <= found.state_bound * (1 + 1e-6)
        assert 0 < min(one.shortest) <= max(one.longest) < math.inf
    assert len(found.by_magnitude) == len(MAGNITUDES)


def test_a_state_outside_its_bounds_is_noticed() -> None:
    """The bounds are those of a cell with half the reversal potentials."""
    cell, bounding = NeuralLTC(1, 3), NeuralLTC(1, 3)
    with torch.no_grad():
        cell.tau_raw.copy_(raw_of(torch.full((3,), 100.0)))
        cell.A.fill_(2.0)
        bounding.load_state_dict(cell.state_dict())
        bounding.A.fill_(1.0)
        cell.mu.fill_(50.0)
    # f = 1: states converge to A / (1 + 1 / tau), time constants to tau / (1 + tau)
    inputs = torch.zeros(1, 100, 1)
    states = torch.full((1, 100, 3), 2 / 1.01)
    found = reach(contestant(cell, bounding), inputs, states)
    assert not found.states_inside
    assert found.state_margin == pytest.approx(1 - 2 / 1.01)
    assert found.taus_inside
    assert found.shortest == pytest.approx([100 / 101] * 3)


def test_a_state_that_overflows_is_outside() -> None:
    cell = NeuralLTC(1, 2)
    found = reach(contestant(cell), torch.zeros(1, 2, 1), torch.tensor([[[0.0, 0.0], [math.nan, 0.0]]]))
    assert found.largest == math.inf
    assert found.state_margin == -math.inf
    assert not found.states_inside


def test_the_memory_of_an_lstm_counts_the_steps_while_its_output_is_bounded() -> None:
    cell = LSTM(1, 1)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.bias_ih.fill_(50.0)  # every gate open: c' = c + 1
    found = drive(contestant(cell), TINY, seed=0)
    assert found.by_time == {step: pytest.approx(step) for step in (1, 2, 4, 8, 16, 32, 64, 128, 256)}
    assert found.grows
    assert found.state_bound == math.inf
    low, high = cell.state_bounds()
    assert (low[0], high[0]) == (-1, 1)


def test_a_neural_ode_grows_by_one_a_step() -> None:
    cell = NeuralODE(1, 2)
    with torch.no_grad():
        cell.gamma_r.zero_()
    found = drive(contestant(cell), TINY, seed=0)
    assert found.by_time[256] == pytest.approx(256, rel=1e-4)
    assert found.grows


def test_a_long_run_in_parts_equals_one_in_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drive(contestant(LTC(2, 3)), TINY, seed=0)
    monkeypatch.setattr("scripts.paper.bounds.driven.CHUNK", 37)
    parts = drive(contestant(whole.contestant.cell), TINY, seed=0)
    assert parts.by_time == pytest.approx(whole.by_time)
    assert list(parts.by_time) == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_training_lowers_the_error_of_the_task() -> None:
    torch.manual_seed(0)
    cell = NeuralLTC(2, 8, time_constants=(0.5, 5.0))
    before = train(cell, 0, 0.01, torch.Generator().manual_seed(0))
    after = train(cell, 80, 0.02, torch.Generator().manual_seed(0))
    assert after < 0.7 < before


def test_networks_keep_or_leave_their_bounds_as_expected() -> None:
    by_name = {name: drive(train_one(name, TINY, seed=0), TINY, seed=0) for name in NETWORKS}
    assert by_name[LIQUID].inside == by_name[NEURAL].inside == by_name[RECURRENT].inside == (True, True)
    assert by_name[TANH].inside == (False, False)
    assert {name for name, one in by_name.items() if one.state_bound == math.inf} == {MEMORY, NEURAL_ODE}
    assert by_name[MEMORY].grows
    assert by_name[NEURAL_ODE].grows


@pytest.mark.parametrize("make", [lambda: LTC(2, AutoNCP(8, 2, seed=0)), lambda: NeuralLTC(2, 5)])
def test_fused_steps_never_leave_the_bounds_and_long_explicit_ones_do(make: Any) -> None:
    torch.manual_seed(0)
    one = contestant(make())
    found = {solver: overshoots(one, solver, rows=4, steps=8, seed=0) for solver in ("fused", "euler", "rk4")}
    assert leaves_at(found["fused"]) is None
    assert [step.ratio for step in found["fused"]] == list(RATIOS)
    for solver in ("euler", "rk4"):
        ratio = leaves_at(found[solver])
        assert ratio is not None
        assert ratio > 1  # an Euler step below the shortest time constant is a weighted mean too
    assert found["euler"][-1].beyond == math.inf


def test_an_euler_step_overshoots_by_the_computed_distance() -> None:
    """One neuron with f = 1 that starts from 0: x = h A after a step, A h - (h / tau_sys) A after two, and so on."""
    cell = NeuralLTC(1, 1, unfolds=1)
    with torch.no_grad():
        cell.gamma.zero_(), cell.gamma_r.zero_(), cell.mu.fill_(50.0), cell.A.fill_(2.0)
        cell.tau_raw.copy_(raw_of(torch.ones(1)))
    found = {step.ratio: step.beyond for step in overshoots(contestant(cell), "euler", rows=1, steps=1, seed=0)}
    for ratio, beyond in found.items():
        # the time constant is 1 / 2, so that h = ratio / 2; the first step comes to 2 h and the bound is 2
        assert beyond == pytest.approx(max(ratio - 2, 0), rel=1e-5, abs=1e-5)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    script = importlib.import_module("scripts.paper.bounds.__main__")
    monkeypatch.setattr(script, "Sizes", lambda: TINY)
    return script


def run(script: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["bounds", *words])
    return script.run_report("bounds", script.__doc__, script.BoundsSettings, script.make)


def test_the_report_names_the_networks_that_stay_and_is_repeatable(script: Any) -> None:
    pytest.importorskip("matplotlib")
    one, same = (script.report(TINY, 0, progress=False) for _ in range(2))
    assert one.rows == same.rows
    assert [row[0] for row in one.rows] == list(NETWORKS)
    verdicts = {finding.name: finding.holds for finding in one.findings}
    assert verdicts["Theorem 1"] is verdicts["Theorem 2"] is verdicts["Other networks"] is True
    assert verdicts["Theorem 2, run by explicit Euler"] is verdicts["Theorems 1 and 2 with tanh"] is False
    inside = {row[0]: row[list(one.head).index("inside")] for row in one.rows}
    assert inside[LIQUID] == inside[NEURAL] == "yes"
    assert inside[TANH] == "no"
    assert inside[MEMORY] == ""


@pytest.mark.slow
def test_the_command_writes_table_and_pictures(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert run(script, monkeypatch, "--out", str(tmp_path), "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len(NETWORKS)
    pictures = {f"{s}.{suffix}" for s in ("largest_states", "time_constants", "solvers") for suffix in ("svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == pictures | {"report.md", "table.csv", "report.json"}


def test_a_shipped_agents_circuit_stays_inside(script: Any) -> None:
    pytest.importorskip("stable_baselines3")
    one = script.agent_circuit(str(ROOT / "checkpoints" / "halfcheetah-positions.safetensors"))
    found = drive(one, TINY, seed=0)
    assert found.inside[0]
    low, high = one.cell.state_bounds()
    assert found.state_bound == max(float(-low.min()), float(high.max()))
    assert script.row(found)[:3] == ["halfcheetah-positions, DualLTC", "", None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-3"], "python -m scripts.paper.bounds: --seed must not be negative, got -3\n"),
        (["--agent", "nobody.safetensors"], "nobody.safetensors"),
        (["--agent", str(ROOT / "checkpoints" / "halfcheetah-teacher.safetensors")], "agent without a circuit"),
    ],
)
def test_a_bad_argument_is_refused_with_a_sentence(
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("stable_baselines3")
    assert run(script, monkeypatch, *words, "--out", str(tmp_path / "none")) == 2
    said = capsys.readouterr().err
    assert said.startswith("python -m scripts.paper.bounds: ")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "none").exists()
