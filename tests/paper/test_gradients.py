"""Gradients by backpropagation and by the adjoint method, against closed forms and each other; memory and depth."""

import importlib
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from ncp_control.neurons import CTRNN
from ncp_control.ops import scan
from ncp_control.ops.cpu.backend import available
from scripts.paper.gradients import adjoint
from scripts.paper.gradients.adjoint import METHODS, Method, Run, rebuilt_start, relative_error, run
from scripts.paper.gradients.autograd_cost import SavedBytes, graph_depth
from scripts.paper.gradients.findings import findings
from scripts.paper.gradients.held_inputs import CELLS, INPUTS, Problem, make_problem
from scripts.paper.gradients.sweeps import BY_NAME, Measured, Sizes, Sweeps, power, slope, sweep

pytestmark = pytest.mark.system

SMALL = {"units": 3, "batch": 2}
compiled = pytest.mark.skipif(not available()[0], reason="no compiled kernels")
EACH = [pytest.param(m, id=m.name, marks=compiled if m.gradient == "compiled" else ()) for m in METHODS]
THROUGH_ODEINT = [method for method in METHODS if method.solver != "fused"]


def decaying(steps: int, unfolds: int) -> tuple[Problem, float]:
    """Makes neurons without inputs, `dx/dt = -x / tau`, from 0.5, 1 and -1.5, with target 0; also returns tau."""
    cell = CTRNN(INPUTS, 3, solver="fused", unfolds=unfolds, time_constants=(0.8, 0.8)).double()
    with torch.no_grad():
        for parameter in (cell.gamma, cell.gamma_r, cell.mu):
            parameter.zero_()
    start = torch.tensor([[0.5, 1.0, -1.5]], dtype=torch.float64)
    inputs = torch.randn(1, steps, INPUTS, dtype=torch.float64)
    return Problem(cell, inputs, start, torch.zeros_like(start)), float(cell.tau[0].detach())


def parts(problem: Problem, found: Run) -> dict[str, torch.Tensor]:
    """Splits a gradient into named parts."""
    assert found.gradient is not None
    named = {"state": problem.state, **dict(problem.cell.named_parameters())}
    pieces = found.gradient.split([tensor.numel() for tensor in named.values()])
    return {name: piece.view_as(named[name]) for piece, name in zip(pieces, named, strict=True)}


@pytest.mark.parametrize("method", THROUGH_ODEINT, ids=lambda method: method.name)
def test_exponential_decay_has_the_gradient_of_its_closed_form(method: Method) -> None:
    steps = 2
    problem, tau = decaying(steps, unfolds=48)
    found = run(method, problem, tolerance=1e-9)
    start, end = problem.state, problem.state * math.exp(-steps / tau)
    torch.testing.assert_close(found.state, end, rtol=1e-7, atol=1e-9)
    gradients = parts(problem, found)
    near = {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(gradients["state"], start * math.exp(-2 * steps / tau), **near)
    by_tau = (end**2).sum(0) * steps / tau**2
    torch.testing.assert_close(gradients["tau_raw"], by_tau * torch.sigmoid(problem.cell.tau_raw.detach()), **near)
    # a constant input u gives x(T) = x(0) e^(-T / tau) + tau (1 - e^(-T / tau)) u
    torch.testing.assert_close(gradients["mu"], end.sum(0) * tau * (1 - math.exp(-steps / tau)), **near)


@pytest.mark.parametrize("method", EACH[:2])
def test_fused_steps_have_the_gradient_of_their_closed_form(method: Method) -> None:
    steps, unfolds = 3, 4
    problem, tau = decaying(steps, unfolds)
    h, count = 1 / unfolds, steps * unfolds
    end = problem.state / (1 + h / tau) ** count
    found = run(method, problem)
    torch.testing.assert_close(found.state, end, rtol=1e-12, atol=0)
    gradients = parts(problem, found)
    torch.testing.assert_close(gradients["state"], end / (1 + h / tau) ** count, rtol=1e-12, atol=0)
    by_tau = (end**2).sum(0) * count * (h / tau**2) / (1 + h / tau)
    chained = by_tau * torch.sigmoid(problem.cell.tau_raw.detach())
    torch.testing.assert_close(gradients["tau_raw"], chained, rtol=1e-12, atol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_every_solver_converges_to_the_gradient_of_the_ode(cell: str) -> None:
    problem = make_problem(cell, 2, 1, tau=0.7, unfolds=8, units=4, batch=2)
    first = problem.state.clone().requires_grad_()
    problem.cell.solver, problem.cell.unfolds = "rk4", 40  # our own RK4, through our own scan
    last = scan(problem.cell, problem.inputs, first, backend="reference")[:, -1]
    exact = torch.autograd.grad(problem.loss(last), [first, *problem.cell.parameters()], materialize_grads=True)
    true = torch.cat([gradient.flatten() for gradient in exact])
    problem.cell.unfolds = 8
    for method in THROUGH_ODEINT:
        found = run(method, problem, tolerance=1e-5)
        assert relative_error(found.state, last.detach()) < 1e-4
        assert relative_error(found.gradient, true) < 1e-4, method.name


@pytest.mark.parametrize("steps", [1, 3])
def test_adjoint_is_less_exact_than_backpropagation(steps: int) -> None:
    exact = run(BY_NAME["RK4"], make_problem("NeuralLTC", steps, 0, **SMALL)).gradient
    assert exact is not None
    problem = make_problem("NeuralLTC", steps, 0, dtype=torch.float32, **SMALL)
    backpropagated = relative_error(run(BY_NAME["RK4"], problem).gradient, exact)
    assert backpropagated < 1e-6
    for name in ("RK4, stepwise", "RK4, whole"):
        assert 5 * backpropagated < relative_error(run(BY_NAME[name], problem).gradient, exact) < 1e-3


def test_adjoint_error_falls_with_the_order_of_the_solver() -> None:
    errors = []
    for unfolds in (4, 8, 16):
        problem = make_problem("NeuralLTC", 2, 0, unfolds=unfolds, **SMALL)
        through = run(BY_NAME["RK4"], problem).gradient
        assert through is not None
        errors.append(relative_error(run(BY_NAME["RK4, stepwise"], problem).gradient, through))
    assert slope([math.log(4), math.log(8), math.log(16)], [math.log(error) for error in errors]) < -3.5


def peak(name: str, steps: int, unfolds: int) -> int:
    problem = make_problem("NeuralLTC", steps, 0, unfolds=unfolds, **SMALL)
    with SavedBytes([*problem.cell.parameters(), problem.inputs, problem.state, problem.target]) as saved:
        run(BY_NAME[name], problem)
    assert saved.now == 0
    return saved.peak


@pytest.mark.parametrize("name", ["fused", "RK4"])
def test_memory_of_backpropagation_grows_with_length_and_steps(name: str) -> None:
    base, longer, finer = peak(name, 4, 4), peak(name, 8, 4), peak(name, 4, 8)
    assert 1.7 * base < longer < 2.1 * base
    assert 1.7 * base < finer < 2.1 * base


def test_memory_of_the_adjoint_does_not_grow_with_steps() -> None:
    assert peak("RK4, whole", 2, 2) == peak("RK4, whole", 2, 8) == peak("RK4, whole", 6, 2)
    assert peak("RK4, stepwise", 4, 2) == peak("RK4, stepwise", 4, 8)
    # each further input keeps two states of 2 x 3 numbers and two times
    assert peak("RK4, stepwise", 6, 2) - peak("RK4, stepwise", 4, 2) == 2 * (2 * 2 * 3 + 2) * 8
    assert peak("RK4, whole", 6, 8) < peak("RK4", 6, 8) / 10


@compiled
def test_memory_of_the_compiled_scan_grows_with_length_alone() -> None:
    assert peak("fused, compiled", 4, 2) == peak("fused, compiled", 4, 16)
    assert peak("fused, compiled", 8, 2) - peak("fused, compiled", 4, 2) == 4 * 2 * 3 * 8


def test_evaluations_are_counted() -> None:
    problem = make_problem("NeuralLTC", 3, 0, unfolds=5, **SMALL)
    assert run(BY_NAME["fused"], problem).evaluations == (5, 5)
    for name in ("RK4", "RK4, stepwise", "RK4, whole"):
        assert run(BY_NAME[name], problem).evaluations == (20, 20)
    loose, tight = (run(BY_NAME["dopri5"], problem, tolerance).evaluations[0] for tolerance in (1e-3, 1e-8))
    assert 6 < loose < tight


def test_depth_grows_with_the_steps() -> None:
    for name in ("fused", "RK4", "RK4, whole"):
        few, many = (run(BY_NAME[name], make_problem("CT-RNN", 2, 0, unfolds=n, **SMALL)).depth for n in (4, 8))
        assert 1.7 * few < many < 2.1 * few


def test_what_decays_forward_cannot_be_solved_backward() -> None:
    whole = BY_NAME["RK4, whole"]
    errors = [rebuilt_start(whole, make_problem("NeuralLTC", steps, 0, tau=0.5, **SMALL)) for steps in (1, 2, 4, 8)]
    assert errors[0] < 0.1
    assert errors[-1] > 100
    # the neurons' rates lie between 1 / tau and 1 / tau + 1
    assert 2 < slope([2, 4, 8], [math.log(error) for error in errors[1:]]) < 3.1
    assert rebuilt_start(whole, make_problem("Neural ODE", 8, 0, **SMALL)) < 1e-3


def test_on_a_long_sequence_the_whole_adjoint_solve_fails_and_the_stepwise_one_does_not() -> None:
    problem = make_problem("NeuralLTC", 16, 2, units=16, batch=8)
    through = run(BY_NAME["RK4"], problem).gradient
    assert through is not None
    assert relative_error(run(BY_NAME["RK4, stepwise"], problem).gradient, through) < 1e-4
    assert relative_error(run(BY_NAME["RK4, whole"], problem).gradient, through) > 1


def test_a_backward_solve_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjoint, "PATIENCE", 0.1)
    problem = make_problem("NeuralLTC", 1, 0, **SMALL)
    found = run(BY_NAME["dopri5, whole"], problem)
    assert found.gradient is None
    assert relative_error(found.gradient, torch.ones(3)) == math.inf
    assert rebuilt_start(BY_NAME["dopri5, whole"], problem) == math.inf


@pytest.mark.parametrize("method", EACH)
def test_same_seed_same_numbers(method: Method) -> None:
    one, other = (run(method, make_problem("NeuralLTC", 2, 5, **SMALL)) for _ in range(2))
    assert one.gradient is not None
    assert other.gradient is not None
    assert torch.equal(one.gradient, other.gradient)
    assert one.evaluations == other.evaluations
    different = run(method, make_problem("NeuralLTC", 2, 6, **SMALL)).gradient
    assert different is not None
    assert not torch.equal(one.gradient, different)


def test_a_longer_sequence_begins_like_a_shorter_one() -> None:
    short, long = (make_problem("LTC", steps, 3, **SMALL) for steps in (2, 5))
    assert torch.equal(short.inputs, long.inputs[:, :2])
    assert torch.equal(short.state, long.state)
    single = make_problem("LTC", 2, 3, dtype=torch.float32, **SMALL)
    assert torch.equal(single.inputs.double(), short.inputs)


def test_saved_bytes_of_known_operations() -> None:
    x = torch.randn(100, dtype=torch.float64, requires_grad=True)
    with SavedBytes([x]) as saved:
        total = x.exp().exp().sum()  # each operation keeps its result
        assert saved.now == 1600
        total.backward()  # type: ignore[no-untyped-call]
    assert (saved.now, saved.peak) == (0, 1600)
    with SavedBytes([x]) as saved:
        y = x.exp()
        z = y * y  # keeps the same memory three times
        assert saved.now == 800
        w = x.sin()  # keeps its input
        assert saved.now == 800
        del y, z, w
    assert saved.now == 0
    with SavedBytes() as saved:
        w = x.sin()
        assert saved.now == 800
        del w


def test_graph_depth_of_graphs_drawn_by_hand() -> None:
    x = torch.ones(2, requires_grad=True)
    assert graph_depth(torch.ones(2)) == 0
    assert graph_depth(x.exp()) == 2  # the leaf has a node of its own
    assert graph_depth(x.exp().exp().exp() + x) == 5
    y = x
    for _ in range(5000):
        y = y + 1
    assert graph_depth(y) == 5001


def test_power_and_slope() -> None:
    assert power([1, 2, 4], [3, 12, 48]) == 2
    assert power([1, 2, 4], [5, 5, 5]) == 0
    assert power([2], [3]) is None
    assert slope([1, 2, 5], [1, 3, 9]) == pytest.approx(2)


TINY = Sizes(
    lengths=(1, 2), short=1, unfolds=(1, 2), tolerances=(1e-2, 1e-4), taus=(1.0, 0.3),
    cells=("NeuralLTC", "Neural ODE"), units=3, batch=2, repeats=1, seeds=2,
)  # fmt: skip


def without_times(found: Sweeps) -> list[Measured]:
    each = [one for part in (found.length, found.effort, found.tau) for row in part.values() for one in row]
    each += [one for cell in found.cells.values() for one in cell.values()]
    return [one._replace(seconds=(0.0, 0.0)) for one in each]


def as_published(method: Method, T: int, L: float) -> Measured:
    """Returns numbers as in Table 1 of the paper."""
    kept = L * T if not method.adjoint else 7.0
    error = 1e-7 if not method.adjoint else 0.5
    return Measured(kept, (L * T, L * T), (L, L), L, error, error, 1e-5)


def published_sweeps(sizes: Sizes) -> Sweeps:
    return Sweeps(
        length={m.name: [as_published(m, T, 6) for T in sizes.lengths] for m in METHODS},
        effort={m.name: [as_published(m, sizes.short, L) for L in sizes.unfolds] for m in METHODS},
        tau={m.name: [as_published(m, sizes.short, 10 / tau**2) for tau in sizes.taus] for m in METHODS},
        cells={cell: {m.name: as_published(m, 2, 6) for m in METHODS} for cell in sizes.cells},
        rebuilt={
            (cell, s): [math.exp(2 * T) for T in sizes.lengths] for cell in sizes.cells for s in ("RK4", "dopri5")
        },
        drawn=[[0.5] * sizes.seeds for _ in sizes.lengths],
    )


def test_findings_follow_the_numbers() -> None:
    found = published_sweeps(TINY)
    assert all(finding.holds for finding in findings(found, TINY))

    def verdicts(**changed: Measured) -> dict[str, bool | None]:
        length = {
            name: [changed.get(name.replace(", ", "_"), one) for one in row] for name, row in found.length.items()
        }
        return {finding.name: finding.holds for finding in findings(replace(found, length=length), TINY)}

    rough = as_published(BY_NAME["RK4, whole"], 2, 6)
    assert verdicts()["FWD acc"]
    assert not verdicts(RK4_whole=rough._replace(state=1e-3))["FWD acc"]
    assert not verdicts(fused=rough)["Memory, BPTT"]  # does not grow with T
    assert not verdicts(fused=rough._replace(same=1e-2))["BPTT"]
    near = replace(found, drawn=[[1e-7] * TINY.seeds for _ in TINY.lengths])
    assert {finding.name: finding.holds for finding in findings(near, TINY)}["BWD acc, one solve"] is False


def load_script(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib")
    script = importlib.import_module("scripts.paper.gradients.__main__")
    monkeypatch.setattr(script, "Sizes", lambda: TINY)
    monkeypatch.setattr(script, "available_backends", lambda: {"cpu": (True, "")})
    return script


def test_the_report_of_published_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script(monkeypatch)
    monkeypatch.setattr(script, "sweep", lambda sizes, seed: published_sweeps(sizes))
    report = script.make(script.Settings())
    table = {row[0]: dict(zip(report.head, row, strict=True)) for row in report.rows}
    assert table["Memory [kB]"]["BPTT, published"] == "O(L x T)"
    assert table["Memory [kB]"]["adjoint, published"] == "O(1)"
    assert table["Time, power of T"]["RK4"] == table["Time, power of L"]["RK4, whole"] == 1
    assert table["Memory, power of L"]["fused"] == table["Memory, power of T"]["fused"] == 1
    assert table["Memory, an input more [kB]"]["fused"] == 6
    assert table["Memory, power of T"]["dopri5, whole"] == 0
    assert table["BWD acc, error"]["RK4, whole"] == "5.0e-01"
    assert list(report.figures) == ["cost", "gradient_error"]


def test_the_report_says_which_solves_were_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script(monkeypatch)
    found = published_sweeps(TINY)
    lost = [one._replace(same=math.inf, true=math.inf) for one in found.length["dopri5, whole"]]
    gone = replace(found, length={**found.length, "dopri5, whole": lost}, drawn=[[math.inf] * 2] * 2)
    monkeypatch.setattr(script, "sweep", lambda sizes, seed: gone)
    report = script.make(script.Settings())
    table = {row[0]: dict(zip(report.head, row, strict=True)) for row in report.rows}
    assert table["BWD acc, error"]["dopri5, whole"] == table["Time, backward [ms]"]["dopri5, whole"] == "given up"
    assert table["Time, power of T"]["dopri5, whole"] is None
    assert "inf" not in report.text().replace("infinite", "")
    assert {finding.name: finding.holds for finding in report.findings}["BWD acc, one solve"] is True


def test_without_compiled_kernels_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script(monkeypatch)
    monkeypatch.setattr(script, "available_backends", lambda: {"cpu": (False, "no compiler was found")})
    with pytest.raises(ValueError, match="cannot run here: no compiler was found"):
        script.make(script.Settings())


@compiled
@pytest.mark.slow
def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script(monkeypatch)
    report = script.make(script.Settings())
    held = {finding.name: finding.holds for finding in report.findings}
    assert held["Memory, adjoint"]
    assert held["FWD acc"]
    assert held["BPTT"]
    assert not held["BWD acc, a solve an input"]


@compiled
@pytest.mark.slow
def test_same_seed_same_sweep() -> None:
    one, other = sweep(TINY, 3), sweep(TINY, 3)
    assert without_times(one) == without_times(other)
    assert (one.rebuilt, one.drawn) == (other.rebuilt, other.drawn)
    assert without_times(sweep(TINY, 4)) != without_times(one)
