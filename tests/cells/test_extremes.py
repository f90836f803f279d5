"""Times and inputs as large and as small as float32 has them: finite states within the bounds, and finite gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ncp_control as nc
from helpers.cell_values import close_to
from helpers.cells import build, names
from ncp_control import solvers
from ncp_control.ops import explain_backends

SPANS = (0.0, 1e-38, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e38)
QUICK = (
    *("ltc-gaps-quick", "ltc-one", "ltc-chain", "neural-ltc-quick", "neural-ltc-relu", "ctrnn-fused", "cfc-default"),
    *("cfc-no_gate", "cfc-backbone", "ct-gru", "ct-gru-scales", "lstm", "gru", "lagged-mlp", "mixed-cfc"),
)
# Explicit solvers and cells without a leak claim no bounds, and a long span takes them to infinity.
KEPT = [name for name in names(exact=True) if build(name).guarantee.holds or not build(name).uses_elapsed]


def cells() -> list[Any]:
    chosen = [*KEPT, *(name for name in QUICK if name not in KEPT)]
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in chosen]


@pytest.mark.parametrize("name", cells())
def test_no_time_and_no_input_takes_a_cell_out_of_its_bounds(name: str) -> None:
    cell = build(name)
    able = [key for key, (ok, _) in explain_backends(cell, torch.zeros(1, 1, cell.inputs)).items() if ok]
    low, high = (bound.detach() for bound in close_to(cell.state_bounds()))
    inner, outer = low.clamp(-0.5), high.clamp(max=0.5)
    parameters = dict(cell.named_parameters())
    for rows in (1, 5):
        for scale in (1.0, 1e30):
            torch.manual_seed(0)
            given = scale * torch.randn(rows, 2, cell.inputs)
            start = inner + (outer - inner) * torch.rand(rows, cell.state_size)
            for span in SPANS:
                found = {}
                for backend in able:
                    inputs, state = given.clone().requires_grad_(), start.clone().requires_grad_()
                    elapsed = torch.full((rows, 2), span, requires_grad=True)
                    states = nc.scan(cell, inputs, state, elapsed, backend=backend)
                    assert ((states >= low) & (states <= high) & states.isfinite()).all(), (scale, span, backend)
                    wanted = {"inputs": inputs, "state": state, "elapsed": elapsed} | parameters
                    grads = torch.autograd.grad(states.sum(), list(wanted.values()), materialize_grads=True)
                    for key, grad in zip(wanted, grads, strict=True):
                        assert grad.isfinite().all(), (scale, span, backend, key)
                    found[backend] = states.detach()
                for backend in able[:-1]:
                    torch.testing.assert_close(found[backend], found["reference"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "neural-ltc-relu", "ctrnn-fused"])
def test_a_very_long_step_ends_where_a_long_one_does(name: str) -> None:
    cell = build(name, torch.float64)
    inputs, state = torch.randn(3, 1, cell.inputs, dtype=torch.float64), torch.zeros(3, cell.units, dtype=torch.float64)
    long = nc.scan(cell, inputs, state, 1e15, backend="reference")
    for backend in ("auto", "reference"):
        for span in (1e30, 1e200, 1e308, float("inf")):
            torch.testing.assert_close(nc.scan(cell, inputs, state, span, backend=backend), long)


def test_where_the_span_of_an_unfold_is_one_the_gradient_of_elapsed_has_no_jump() -> None:
    cell = build("neural-ltc-quick", torch.float64)
    inputs, state = torch.randn(2, 1, 3, dtype=torch.float64), torch.rand(2, 7, dtype=torch.float64)
    for backend in ("auto", "reference"):
        slopes = []
        for span in (2 - 1e-7, 2.0, 2 + 1e-7):  # of two unfolds
            elapsed = torch.tensor(span, dtype=torch.float64, requires_grad=True)
            states = nc.scan(cell, inputs, state, elapsed, backend=backend)
            slopes.append(torch.autograd.grad(states.sum(), elapsed)[0])
        torch.testing.assert_close(slopes, slopes[1:2] * 3, rtol=1e-5, atol=1e-8)


def test_the_adaptive_solver_says_why_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "MOST_STEPS", 30)
    cell = build("ltc-dopri5")
    for elapsed, reason in (
        (1e5, "so long that it would need more than 30 steps"),
        (float("nan"), "a NaN or infinity"),
    ):
        with pytest.raises(ArithmeticError, match=reason):
            nc.scan(cell, torch.zeros(2, 1, 2), elapsed=torch.tensor([0.1, elapsed]))
