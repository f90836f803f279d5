"""Solvers meet exact solutions with the order they should have, and whole cells an independent, precise solver."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from helpers.cells import DENSE_5, GAPS_7, NCP_7
from ncp_control.neurons import CTRNN, LTC, NeuralLTC, NeuralODE
from ncp_control.neurons.ode import ODECell
from ncp_control.solvers import FIXED_STEP, SOLVERS, RateAndDrive, check_solver, dopri5, euler, fused, integrate, rk4

ORDERS = {"fused": 1, "euler": 1, "rk4": 4}
PAIR = torch.tensor([[1.0, 0.0], [0.3, -2.0]], dtype=torch.float64)
TURN = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


@dataclass(frozen=True)
class Problem:
    """An ODE in our form, its initial state, and its exact solution after a time t."""

    field: RateAndDrive
    start: Tensor
    exact: Callable[[Tensor, float], Tensor]
    span: float


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def whirl(x: Tensor, t: float) -> Tensor:
    cos, sin = math.cos(2 * t), math.sin(2 * t)
    return x @ torch.tensor([[cos, sin], [-sin, cos]], dtype=x.dtype)


PROBLEMS = {
    # dx/dt = -1.7 x
    "decay": Problem(
        lambda x: (torch.full_like(x, 1.7), torch.zeros_like(x)),
        column(1.0, -2.0),
        lambda x, t: x * math.exp(-1.7 * t),
        1.0,
    ),
    # dx/dt = 3 - 1.5 x
    "driven": Problem(
        lambda x: (torch.full_like(x, 1.5), torch.full_like(x, 3.0)),
        column(0.0, 5.0),
        lambda x, t: 2 + (x - 2) * math.exp(-1.5 * t),
        1.0,
    ),
    # dx/dt = 2 x (1 - x): drive 2 x, rate 2 x
    "logistic": Problem(
        lambda x: (2 * x, 2 * x),
        column(0.1, 0.7),
        lambda x, t: x * math.exp(2 * t) / (1 + x * math.expm1(2 * t)),
        1.0,
    ),
    # dx/dt = -x^3: rate x^2
    "cubic": Problem(
        lambda x: (x**2, torch.zeros_like(x)), column(0.5, -0.5), lambda x, t: x / (1 + 2 * t * x**2).sqrt(), 2.0
    ),
    # a rotation by the drive alone, without a rate
    "rotation": Problem(
        lambda x: (torch.zeros_like(x), 2 * x @ TURN),
        PAIR,
        whirl,
        1.0,
    ),
    # the same, spiralling inwards: x = rotation times exp(-t / 2)
    "spiral": Problem(
        lambda x: (torch.full_like(x, 0.5), 2 * x @ TURN),
        PAIR,
        lambda x, t: whirl(x, t) * math.exp(-0.5 * t),
        1.0,
    ),
}


def measured_order(errors: list[float], steps: list[int]) -> float:
    """Returns the slope of log error against log h."""
    return float(np.polyfit(np.log(1 / np.array(steps)), np.log(errors), 1)[0])


@pytest.mark.parametrize("solver", FIXED_STEP)
@pytest.mark.parametrize("name", PROBLEMS)
def test_error_falls_with_the_step_as_the_order_says(name: str, solver: str) -> None:
    problem, order = PROBLEMS[name], ORDERS[solver]
    steps = [64, 128, 256, 512] if order == 1 else [16, 32, 64, 128]
    end = problem.exact(problem.start, problem.span)
    errors = [
        (integrate(solver, problem.field, problem.start, problem.span, n) - end).abs().max().item() for n in steps
    ]
    assert measured_order(errors, steps) == pytest.approx(order, abs=0.1 if order == 1 else 0.25)
    assert errors[-1] < (0.05 if order == 1 else 1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_dopri5_meets_the_exact_solution(name: str) -> None:
    problem = PROBLEMS[name]
    end = problem.exact(problem.start, problem.span)
    torch.testing.assert_close(dopri5(problem.field, problem.start, problem.span), end, rtol=1e-6, atol=1e-6)


def test_fused_takes_only_the_linear_state_at_the_end_of_the_step() -> None:
    """On dx/dt = -a x it is implicit Euler, on dx/dt = -x^2 exact, on dx/dt = drive explicit Euler."""
    x, h = column(0.5, 2.0), 0.8
    torch.testing.assert_close(fused(lambda x: (torch.full_like(x, 3.0), 0 * x), x, h), x / (1 + 3 * h))
    torch.testing.assert_close(fused(lambda x: (x, 0 * x), x, h), x / (1 + x * h))
    torch.testing.assert_close(fused(lambda x: (0 * x, x**2), x, h), x + h * x**2)


def test_integrate_takes_unfolds_equal_steps() -> None:
    problem = PROBLEMS["logistic"]
    for solver, step in {"fused": fused, "euler": euler, "rk4": rk4}.items():
        state = problem.start
        for _ in range(3):
            state = step(problem.field, state, 0.9 / 3)
        torch.testing.assert_close(integrate(solver, problem.field, problem.start, 0.9, 3), state, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_time_changes_nothing(name: str, solver: str) -> None:
    problem = PROBLEMS[name]
    for nothing in (0.0, torch.tensor(0.0), torch.zeros(2, 1, dtype=torch.float64)):
        assert torch.equal(integrate(solver, problem.field, problem.start, nothing, 4), problem.start)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_row_can_have_its_own_span(name: str, solver: str) -> None:
    problem = PROBLEMS[name]
    spans = [0.9, 0.2]
    together = integrate(solver, problem.field, problem.start, column(*spans), 5)
    apart = [integrate(solver, problem.field, problem.start[row, None], spans[row], 5)[0] for row in range(2)]
    allowed = 1e-6 if solver == "dopri5" else 1e-14
    torch.testing.assert_close(together, torch.stack(apart), rtol=allowed, atol=allowed)


def test_only_fused_is_stable_for_every_step() -> None:
    field, start = PROBLEMS["driven"].field, column(0.0, 5.0)
    for h in (1e-3, 1.0, 1e3, 1e6):
        end = integrate("fused", field, start, h, 6)
        assert (torch.minimum(start, column(2.0, 2.0)) <= end).all()
        assert (end <= torch.maximum(start, column(2.0, 2.0))).all()
    torch.testing.assert_close(end, column(2.0, 2.0))
    for solver in ("euler", "rk4"):
        assert (integrate(solver, field, start, 1e6, 6).abs() > 1e12).all()


def test_fused_keeps_float32_precision_in_small_steps() -> None:
    """A thousand small steps from an equilibrium of 0.7 stay there, though 1 + h rate has few digits left."""
    rate, equilibrium = torch.tensor([[0.3, 1.0, 2.7]]), 0.7
    for h in (1e-7, 1e-5, 1e-3):
        state = torch.full((1, 3), equilibrium)
        for _ in range(1000):
            state = fused(lambda x: (rate, rate * equilibrium), state, h)
        torch.testing.assert_close(state, torch.full((1, 3), equilibrium), rtol=1e-6, atol=0)


@pytest.mark.parametrize("make", [LTC, NeuralLTC, CTRNN, NeuralODE])
def test_unknown_solvers_and_bad_unfolds_are_refused(make: Callable[..., ODECell]) -> None:
    with pytest.raises(ValueError, match=r"unknown solver 'heun'.*fused, euler, rk4, dopri5"):
        make(2, 3, solver="heun")
    for unfolds in (0, -1, 1.5, "6", True, None):
        with pytest.raises(ValueError, match=r"unfolds must be a positive integer, got"):
            make(2, 3, unfolds=unfolds)
    for solver in SOLVERS:
        check_solver(solver, 1)
        with pytest.raises(ValueError, match="unfolds must be at most 10,000, got 2,000,000,000"):
            check_solver(solver, 2_000_000_000)


def numpy_of(cell: torch.nn.Module, name: str) -> np.ndarray:
    return getattr(cell, name).detach().numpy()


def ltc_slope(cell: LTC, inputs: np.ndarray) -> Callable[[float, np.ndarray], np.ndarray]:
    """Returns the right-hand side of the conductance equation, computed synapse by synapse."""
    neuron, synapse = ("gleak", "vleak", "cm", "gap"), ("w", "sigma", "mu", "E")
    sensory = ("sensory_w", "sensory_sigma", "sensory_mu", "sensory_E", "input_scale", "input_shift")
    p = {name: numpy_of(cell, name) for name in (*neuron, *synapse, *sensory)}
    sensed = p["input_scale"] * inputs + p["input_shift"]

    def slope(_: float, v: np.ndarray) -> np.ndarray:
        current = p["gleak"] * (p["vleak"] - v)
        for e, (i, j, _sign) in enumerate(cell.wiring.synapses):
            current[j] += p["w"][e] / (1 + np.exp(-p["sigma"][e] * (v[i] - p["mu"][e]))) * (p["E"][e] - v[j])
        for e, (i, j, _sign) in enumerate(cell.wiring.sensory):
            a = p["sensory_w"][e] / (1 + np.exp(-p["sensory_sigma"][e] * (sensed[i] - p["sensory_mu"][e])))
            current[j] += a * (p["sensory_E"][e] - v[j])
        for e, (j, k) in enumerate(cell.wiring.gap_junctions):
            current[j] += p["gap"][e] * (v[k] - v[j])
            current[k] += p["gap"][e] * (v[j] - v[k])
        return current / p["cm"]

    return slope


def neural_ltc_slope(cell: NeuralLTC, inputs: np.ndarray) -> Callable[[float, np.ndarray], np.ndarray]:
    """Returns the right-hand side of Eq. 1 of the 2021 paper, computed synapse by synapse."""
    gamma, gamma_r, mu, tau, A = (numpy_of(cell, name) for name in ("gamma", "gamma_r", "mu", "tau", "A"))

    def slope(_: float, x: np.ndarray) -> np.ndarray:
        net = mu.copy()
        for e, (i, j, _sign) in enumerate(cell.wiring.synapses):
            net[j] += gamma_r[e] * x[i]
        for e, (i, j, _sign) in enumerate(cell.wiring.sensory):
            net[j] += gamma[e] * inputs[i]
        f = np.tanh(net) if cell.activation == "tanh" else 1 / (1 + np.exp(-net))
        return -(1 / tau + f) * x + f * A

    return slope


def whole_cells(solver: str, unfolds: int) -> dict[str, ODECell]:
    torch.manual_seed(7)
    settings: dict[str, Any] = {"solver": solver, "unfolds": unfolds}
    cells: dict[str, ODECell] = {
        "ltc-gaps": LTC(3, GAPS_7, **settings),
        "ltc-dense": LTC(2, DENSE_5, init="biophysical", **settings),
        "neural-ltc-sigmoid": NeuralLTC(3, NCP_7, time_constants=(0.5, 2.0), **settings),
        "neural-ltc-tanh": NeuralLTC(2, DENSE_5, activation="tanh", time_constants=(0.3, 0.9), **settings),
    }
    for cell in cells.values():
        cell.double()
    return cells


def reference_end(cell: ODECell, inputs: Tensor, state: Tensor, elapsed: float) -> Tensor:
    """Returns the end of each row by SciPy, with a relative tolerance of 1e-12."""
    make = ltc_slope if isinstance(cell, LTC) else neural_ltc_slope
    rows = []
    for x, start in zip(inputs.numpy(), state.numpy(), strict=True):
        run = solve_ivp(make(cell, x), (0, elapsed), start, method="DOP853", rtol=1e-12, atol=1e-14)  # type: ignore
        rows.append(run.y[:, -1])
    return torch.tensor(np.array(rows))


CELLS = ("ltc-gaps", "ltc-dense", "neural-ltc-sigmoid", "neural-ltc-tanh")


@pytest.mark.system
@pytest.mark.parametrize("name", CELLS)
def test_whole_cells_meet_a_precise_reference(name: str) -> None:
    elapsed = 0.4
    cell = whole_cells("dopri5", 1)[name]
    inputs = torch.randn(3, cell.inputs, dtype=torch.float64)
    state = torch.rand(3, cell.units, dtype=torch.float64) - 0.5
    with torch.no_grad():
        end = reference_end(cell, inputs, state, elapsed)
        assert (end - state).abs().max() > 0.05
        torch.testing.assert_close(cell.step(inputs, state, elapsed), end, rtol=1e-6, atol=1e-6)
        fine = whole_cells("rk4", 200)[name]
        torch.testing.assert_close(fine.step(inputs, state, elapsed), end, rtol=1e-8, atol=1e-8)
        for solver, order in ORDERS.items():
            steps = [32, 64, 128, 256] if order == 1 else [8, 16, 32]
            errors = [
                (whole_cells(solver, n)[name].step(inputs, state, elapsed) - end).abs().max().item() for n in steps
            ]
            assert measured_order(errors, steps) == pytest.approx(order, abs=0.1 if order == 1 else 0.35)
