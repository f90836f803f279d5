"""Circuits that follow other systems: the systems against known numbers, the construction, the fit, and the report."""

import importlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scripts.paper.approximation.attractors import (
    LORENZ,
    VAN_DER_POL,
    Data,
    System,
    draw_starts,
    make_data,
    rollouts,
    time_scales,
)
from scripts.paper.approximation.circuits import OneGateCircuit, ProofCircuit, construct
from scripts.paper.approximation.rollout_fit import Objective, fit, mean_squared_error
from scripts.paper.approximation.study import (
    CLOCKS,
    CONSTRUCTED,
    DEFAULT,
    FULL,
    LOST,
    ONE_GATE,
    SYSTEMS,
    TRAINED,
    Sizes,
    along_orbit,
    as_ode,
    follow,
    make_circuit,
    measure,
    study,
)

pytestmark = pytest.mark.system

scipy = pytest.importorskip("scipy")
BOTH = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
SMALL = Sizes(
    {CONSTRUCTED: (8, 32), TRAINED: (2, 8), ONE_GATE: (2, 4)},
    train=64,
    held_out=8,
    batch=16,
    stages=((0.125, 20), (1.0, 30)),
    unfolds=2,
)


@lru_cache
def data_of(system: System) -> Data:
    return make_data(system, SMALL.train, SMALL.held_out, CLOCKS, np.random.default_rng(5))


@BOTH
def test_rollouts_agree_with_an_adaptive_solver_of_high_order(system: System) -> None:
    from scipy.integrate import solve_ivp

    start = draw_starts(system, 3, np.random.default_rng(0))
    found = rollouts(system, start, system.horizon)
    times = np.arange(system.horizon + 1) * system.sample
    for row, path in zip(start, found, strict=True):
        true = solve_ivp(lambda _, x: system.slope(x), (0, times[-1]), row, "DOP853", times, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(path, true.y.T, rtol=0, atol=1e-5)


def test_van_der_pol_has_its_known_period() -> None:
    path = rollouts(VAN_DER_POL, np.array([1.0, 0.0]), 600)
    x = path[200:, 0]
    (up,) = np.nonzero((x[:-1] < 0) & (x[1:] >= 0))
    crossings = up - x[up] / (x[up + 1] - x[up])
    periods = np.diff(crossings) * VAN_DER_POL.sample
    assert periods == pytest.approx(6.6633, abs=2e-3)
    assert VAN_DER_POL.clock == 6.6633
    assert np.abs(x).max() == pytest.approx(2.0086, abs=2e-3)


def test_lorenz_has_its_known_lyapunov_exponent() -> None:
    """Neighbours of 64 points drift apart, and are moved back to them every half unit of time."""
    here = draw_starts(LORENZ, 64, np.random.default_rng(1))
    there = here + 1e-7
    growth = []
    for _ in range(60):
        apart = np.linalg.norm(there - here, axis=1, keepdims=True)
        there = here + (there - here) * 1e-7 / apart
        here, there = (rollouts(LORENZ, points, 25, substeps=4)[:, -1] for points in (here, there))
        growth.append(np.log(np.linalg.norm(there - here, axis=1) / 1e-7))
    assert np.mean(growth[6:]) / 0.5 == pytest.approx(1 / LORENZ.clock, abs=0.03)


def test_eigenvalues_of_lorenz_at_the_origin() -> None:
    eigenvalues = np.sort(np.linalg.eigvals(LORENZ.jacobian(np.zeros(3))))
    expected = [(-11 - 1201**0.5) / 2, -8 / 3, (-11 + 1201**0.5) / 2]  # for sigma, beta and rho = 10, 8 / 3, 28
    assert eigenvalues == pytest.approx(expected)
    assert time_scales(LORENZ, np.zeros((2, 3)))[1] == pytest.approx([1 / 22.8277, 1 / 11.8277, 3 / 8], rel=1e-5)


def test_time_scales_of_van_der_pol_where_a_formula_gives_them() -> None:
    # the eigenvalues: at the origin (1 +- i sqrt 3) / 2, at (1, 0), without damping, +- i, at (2, 0) (-3 +- sqrt 5) / 2
    scales = time_scales(VAN_DER_POL, np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
    assert scales[0] == pytest.approx([2, 2])
    assert (scales[1] > 1e9).all()
    assert scales[2] == pytest.approx([2 / (3 + 5**0.5), 2 / (3 - 5**0.5)])


@BOTH
def test_jacobians_are_derivatives_of_slopes(system: System) -> None:
    point, h = draw_starts(system, 4, np.random.default_rng(2)), 1e-6
    for k in range(point.shape[1]):
        step = h * np.eye(point.shape[1])[k]
        difference = (system.slope(point + step) - system.slope(point - step)) / (2 * h)
        np.testing.assert_allclose(system.jacobian(point)[..., k], difference, atol=1e-6)


@BOTH
def test_data_are_standardised_and_on_the_attractor(system: System) -> None:
    data = data_of(system)
    assert data.train.mean(axis=(0, 1)) == pytest.approx(0, abs=1e-12)
    assert data.train.std(axis=(0, 1)) == pytest.approx(1)
    assert data.train.shape == (64, system.horizon + 1, len(system.coordinates))
    assert data.test.shape[1] * system.sample / system.clock > CLOCKS
    # in standardised coordinates too, slopes are the derivatives of points
    slopes = data.slopes().reshape(data.train.shape)
    along = (data.train[:, 2:] - data.train[:, :-2]) / (2 * system.sample)
    assert np.abs(slopes[:, 1:-1] - along).mean() < 0.05 * np.abs(along).mean()


@BOTH
def test_a_constructed_circuit_moves_as_the_system_does(system: System) -> None:
    """Hidden units move by gamma F(x) and output units by F(x), in the circuit's units of time."""
    data = data_of(system)
    points, slopes = data.train.reshape(-1, len(data.mean)), data.slopes() * 0.1
    circuit = ProofCircuit(len(data.mean), 48, elapsed=0.1).double()
    construct(circuit, points, slopes, np.random.default_rng(0), ridge=1e-9)
    seen = torch.as_tensor(points[::50])
    with torch.no_grad():
        state = circuit.first_state(seen)
        constants = circuit.cell.constants()
        sensed = circuit.cell.sense(constants, seen.new_zeros(len(seen), 1))
        rate, drive = circuit.cell.rate_and_drive(constants, sensed, state)
        moved = (drive - rate * state).numpy()
        gamma = circuit.lift.weight.numpy()
    np.testing.assert_array_equal(circuit.read(state).numpy(), seen.numpy())
    wanted = slopes[::50]
    size = np.abs(wanted).max()
    np.testing.assert_allclose(moved[:, 48:], wanted, atol=0.05 * size)
    np.testing.assert_allclose(moved[:, :48], wanted @ gamma.T, atol=0.1 * size)


def test_outputs_and_inputs_have_no_effect_on_hidden_units() -> None:
    data = data_of(VAN_DER_POL)
    circuit = ProofCircuit(2, 6, elapsed=0.1)
    construct(circuit, data.train.reshape(-1, 2), data.slopes(), np.random.default_rng(0), ridge=1e-3)
    assert {source for source, _, _ in circuit.cell.wiring.synapses} == set(range(6))
    start = torch.tensor([[0.5, -1.0]])
    silent = circuit.states(start, 20)
    shouted = circuit.rnn(torch.full((1, 20, 1), 1e3), circuit.first_state(start), elapsed=0.1, states=True)[2]
    torch.testing.assert_close(shouted, silent[:, 1:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [ProofCircuit, OneGateCircuit])
def test_a_circuits_rollout_begins_at_the_given_point_and_has_the_wanted_length(kind: type) -> None:
    circuit = kind(3, 5, elapsed=0.2)
    start = torch.randn(7, 3)
    assert circuit(start, 11).shape == (7, 12, 3)
    assert circuit.states(start, 0).shape[1] == 1
    if kind is ProofCircuit:
        torch.testing.assert_close(circuit(start, 11)[:, 0], start)


@BOTH
def test_the_error_of_constructed_circuits_falls_with_neurons(system: System) -> None:
    data = data_of(system)
    peaks = [measure(make_circuit(CONSTRUCTED, n, data, SMALL, (0, 0)), data, CONSTRUCTED, 0).peak for n in (4, 12, 48)]
    assert peaks[0] > peaks[1] > peaks[2]
    assert peaks[2] < 0.25


def test_the_gradient_of_the_objective_agrees_with_finite_differences() -> None:
    data = data_of(VAN_DER_POL)
    circuit = make_circuit(CONSTRUCTED, 4, data, SMALL, (0, 0))
    objective = Objective(circuit, torch.as_tensor(data.train[:5, :9]))
    vector = objective.get()
    _, gradient = objective(vector)
    direction = np.random.default_rng(0).normal(size=len(vector))
    ahead, behind = (objective(vector + sign * 1e-6 * direction)[0] for sign in (1, -1))
    assert gradient @ direction == pytest.approx((ahead - behind) / 2e-6, rel=1e-4)


def test_a_circuit_that_diverges_has_a_large_error_and_no_gradient() -> None:
    data = data_of(VAN_DER_POL)
    objective = Objective(OneGateCircuit(2, 3, elapsed=0.1), torch.as_tensor(data.train[:5], dtype=torch.float32))
    error, gradient = objective(np.full_like(objective.get(), np.nan))
    assert error >= 1e6
    assert not gradient.any()


@pytest.mark.parametrize("kind", [TRAINED, ONE_GATE])
def test_training_lowers_the_error_on_unseen_rollouts(kind: str) -> None:
    data = data_of(VAN_DER_POL)
    before = make_circuit(kind, 6, data, replace(SMALL, stages=()), (0, 0))
    after = make_circuit(kind, 6, data, SMALL, (0, 0))
    assert measure(after, data, kind, 0).rms < 0.8 * measure(before, data, kind, 0).rms


def test_the_best_weights_by_validation_are_kept() -> None:
    data = data_of(VAN_DER_POL)
    circuit = make_circuit(TRAINED, 6, data, SMALL, (0, 0))
    valid = torch.as_tensor(data.valid, dtype=torch.float32)
    before = mean_squared_error(circuit, valid).item()
    # windows of a single repeated point teach the circuit to stand still, unlike any validation rollout
    fit(circuit, np.repeat(data.train[:, :1], 9, axis=1), data.valid, np.random.default_rng(0), 16, [(8, 30)])
    assert mean_squared_error(circuit, valid).item() <= before


def test_measured_errors_follow_their_definitions() -> None:
    data = data_of(VAN_DER_POL)
    circuit = make_circuit(TRAINED, 4, data, SMALL, (0, 0))
    found = measure(circuit, data, TRAINED, 3)
    far = np.linalg.norm(follow(circuit, data.test) - data.test, axis=-1)
    near = far[:, : VAN_DER_POL.horizon + 1]
    assert found.peak == pytest.approx(np.median(near.max(axis=1)))
    assert found.worst == pytest.approx(near.max())
    times = [next((k for k, distance in enumerate(row) if distance > LOST), len(row) - 1) for row in far]
    assert found.followed == pytest.approx(min(np.median(times) * 0.1 / 6.6633, CLOCKS))
    one = circuit(torch.as_tensor(data.test[:, 0], dtype=torch.float32), 1)[:, 1].detach().numpy()
    assert 0 < found.one_step < 3 * np.abs(one - data.test[:, 1]).max()
    assert found.seed == 3


def test_more_solver_steps_converge_to_the_ode() -> None:
    data = data_of(VAN_DER_POL)
    circuit = make_circuit(TRAINED, 4, data, SMALL, (0, 0))
    ode = follow(as_ode(circuit), data.test[:, :20])
    apart = []
    for unfolds in (2, 8, 64):
        circuit.cell.unfolds = unfolds
        apart.append(float(np.abs(follow(circuit, data.test[:, :20]) - ode).max()))
    assert apart[0] > 2 * apart[1] > 8 * apart[2]


def test_time_constants_along_an_orbit_lie_in_their_bounds_in_the_systems_time() -> None:
    data = data_of(LORENZ)
    circuit = make_circuit(TRAINED, 4, data, replace(SMALL, stages=()), (0, 0))
    pace = along_orbit(circuit, data, TRAINED)
    low, high = (0.1 * bound.detach().numpy() for bound in circuit.cell.time_constant_bounds())
    assert pace.circuit.shape == (len(pace.times), 4 + 3)
    assert (pace.circuit >= low * (1 - 1e-5)).all()
    assert (pace.circuit <= high * (1 + 1e-5)).all()
    assert (np.diff(pace.system, axis=1) >= 0).all()
    assert pace.times[-1] == pytest.approx(LORENZ.clock, abs=LORENZ.sample)


TINY = replace(
    SMALL, neurons={CONSTRUCTED: (2, 8), TRAINED: (2, 8), ONE_GATE: (2, 3)}, train=32, stages=((0.25, 3), (1.0, 3))
)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_results_and_another_seed_others() -> None:
    sizes = replace(TINY, neurons={CONSTRUCTED: (4,), TRAINED: (3,), ONE_GATE: (2,)})
    one = study(sizes, 1, 1, progress=False).results
    torch.manual_seed(99)
    assert study(sizes, 1, 1, progress=False).results == one
    other = study(sizes, 1, 2, progress=False).results
    assert all(a.peak != b.peak for a, b in zip(one, other, strict=True))


@pytest.fixture
def script() -> Any:
    return importlib.import_module("scripts.paper.approximation.__main__")


def run(script: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["approximation", *words])
    return script.run_report("approximation", script.__doc__, script.ApproximationSettings, script.make)


@pytest.mark.slow
def test_the_report_has_a_row_for_every_kind_and_size(script: Any) -> None:
    pytest.importorskip("matplotlib")
    report = script.report(TINY, 1, 0, progress=False)
    assert [tuple(row[:3]) for row in report.rows] == [
        (system.name, kind, n) for system in SYSTEMS for kind, counts in TINY.neurons.items() for n in counts
    ]
    for row in report.rows:
        named = dict(zip(report.head, row, strict=True))
        assert named["worst start"] >= named["max |x-u|"] > 0
    assert {finding.name for finding in report.findings} >= {"Theorem 3", "Liquid time constants"}
    assert set(report.figures) == {"errors", "portraits", "time_constants"}


@pytest.mark.slow
def test_the_command_writes_table_and_pictures(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(script, "DEFAULT", TINY)
    assert run(script, monkeypatch, "--seeds", "1", "--out", str(tmp_path), "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 12
    pictures = {f"{stem}.{suffix}" for stem in ("errors", "portraits", "time_constants") for suffix in ("svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == pictures | {"report.md", "table.csv", "report.json"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0"], "python -m scripts.paper.approximation: --seeds must be at least 1, got 0\n"),
        (["--seed", "-1"], "python -m scripts.paper.approximation: --seed must not be negative, got -1\n"),
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
    assert run(script, monkeypatch, *words, "--out", str(tmp_path / "none")) == 2
    assert capsys.readouterr().err == message
    assert not (tmp_path / "none").exists()


def test_the_circuits_in_the_picture_of_time_constants_are_made(script: Any) -> None:
    for sizes in (DEFAULT, FULL):
        assert script.WATCHED in sizes.neurons[CONSTRUCTED]
        assert script.WATCHED in sizes.neurons[TRAINED]


@pytest.mark.slow
def test_theorem_3_is_seen(script: Any) -> None:
    """In a smaller report, errors fall with neurons, and those of constructed circuits below a tenth."""
    sizes = Sizes({CONSTRUCTED: (4, 8, 16, 32, 64), TRAINED: (2, 8, 16), ONE_GATE: (2, 8)}, held_out=16, unfolds=2)
    report = script.report(sizes, 2, 0, progress=False)
    verdicts = {finding.name: finding.holds for finding in report.findings}
    assert verdicts["Theorem 3"] is True
    assert verdicts["Theorem 3, by gradient"] is True
